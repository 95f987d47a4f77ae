"""Learning from an application's runs: where a pool keeps samples and predictors, and how a predictor takes effect."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, model_validator

from justitia_api.config import Digest, Document
from justitia_api.resource import LocalReference, Name, rules

ONE_STORE = "exactly one of claimName and bucket must be set"
CANARY_ONLY = "percent is for strategy Canary only: remove it, or choose that strategy"


class S3Bucket(Document):
    """A bucket of any S3-compatible service."""

    url: Annotated[
        str,
        Field(
            max_length=512,
            pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._/-]*)?$",
            description="Bucket and prefix, as s3://bucket/prefix.",
        ),
    ]
    endpoint: Annotated[
        str | None,
        Field(
            max_length=512,
            pattern=r"^https?://[^\s/]+(/[^\s]*)?$",
            description="URL of the service, if it is not Amazon's.",
        ),
    ] = None
    region: Annotated[
        str | None,
        Field(max_length=64, pattern=r"^[a-z0-9-]+$", description="Region of the bucket; us-east-1 if unset."),
    ] = None
    secret_ref: Annotated[
        LocalReference | None,
        Field(
            description="Secret in the pool's namespace with entries AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. "
            "Without it, pods use the credentials that their cloud gives them."
        ),
    ] = None


STORE_RULES = rules(("has(self.claimName) != has(self.bucket)", ONE_STORE))


class ArtifactStore(Document):
    """Where samples of runs and predictors are kept after pods are gone."""

    claim_name: Annotated[
        Name | None,
        Field(
            description="PersistentVolumeClaim in the pool's namespace. If pods run on several nodes, it must be "
            "ReadWriteMany. Must not be set together with bucket."
        ),
    ] = None
    bucket: Annotated[S3Bucket | None, Field(description="A bucket. Must not be set together with claimName.")] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "ArtifactStore":
        if (self.claim_name is None) == (self.bucket is None):
            raise ValueError(ONE_STORE)
        return self


class LearningSpec(Document):
    """How a pool learns from runs of applications that have a predictor."""

    store: Annotated[
        ArtifactStore,
        Field(
            json_schema_extra=STORE_RULES,
            description="Where samples of runs and predictors are kept after pods are gone.",
        ),
    ]
    image: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=1024,
            description="OCI image with predictors that were made elsewhere: one file for each at its root, named by "
            "its version (`justitia predictor export --version`). An application uses one through predictor.version. "
            "The cluster must be able to mount images (Kubernetes 1.33 or newer).",
        ),
    ] = None


ROLLOUT_RULES = rules(("!has(self.percent) || self.strategy == 'Canary'", CANARY_ONLY))


class RolloutSpec(Document):
    """How a new version takes effect."""

    strategy: Annotated[
        Literal["Shadow", "Canary", "Immediate"],
        Field(
            description="Shadow: the candidate predicts live runs without effect, and takes effect once its errors are "
            "shown to be smaller. Canary: the same, but a share of the runs is ordered by it meanwhile. Immediate: it "
            "takes effect at once. With each, a version in effect is rolled back when its errors are shown to be "
            "larger than those of the running mean."
        ),
    ] = "Shadow"
    percent: Annotated[
        int | None,
        Field(ge=1, le=50, description="With Canary: percentage of runs that use the candidate; 10 if unset."),
    ] = None
    minimum_runs: Annotated[
        int,
        Field(
            ge=10,
            le=100_000,
            description="Number of finished runs that a candidate must have predicted before it is judged.",
        ),
    ] = 30
    confidence_percent: Annotated[
        int, Field(ge=50, le=99, description="Confidence with which errors must be shown to be smaller, in percent.")
    ] = 95

    @property
    def canary_percent(self) -> int:
        """Percentage of runs that use a candidate."""
        return 0 if self.strategy != "Canary" else 10 if self.percent is None else self.percent

    @model_validator(mode="after")
    def _canary(self) -> "RolloutSpec":
        if self.percent is not None and self.strategy != "Canary":
            raise ValueError(CANARY_ONLY)
        return self


class PredictorSpec(Document):
    """What predicts the cost of the application's runs, from samples of its finished runs."""

    text: Annotated[
        Literal["Hashed", "Kept"],
        Field(
            description="What samples keep of the text of a run's first request. Hashed: counts of hashed words. Kept: "
            "also the text itself, for your own analysis."
        ),
    ] = "Hashed"
    minimum_samples: Annotated[
        int, Field(ge=20, le=2000, description="Number of finished runs before the first predictor is trained.")
    ] = 100
    retrain_hours: Annotated[
        int, Field(ge=1, le=8760, description="Hours after which a new version is trained, if there are new samples.")
    ] = 24
    rollout: Annotated[
        RolloutSpec, Field(json_schema_extra=ROLLOUT_RULES, description="How a new version takes effect.")
    ] = RolloutSpec()
    version: Annotated[
        Digest | None,
        Field(
            max_length=64,
            description="Keeps this version in effect: no other version is trained or replaces it. One of "
            "status.predictor.history, or any version in the store.",
        ),
    ] = None
    paused: Annotated[
        bool, Field(description="While true, no version is trained and none takes effect. Samples are still kept.")
    ] = False


class PredictorDecision(Document):
    """A decision about a predictor, and its reason."""

    time: Annotated[datetime, Field(description="When it was decided.")]
    reason: Annotated[str, Field(max_length=64, description="What was decided, as one CamelCase word for programs.")]
    message: Annotated[str, Field(max_length=1024, description="What was decided and why, for people.")]


class PredictorStatus(Document):
    """State of the application's predictor. Errors say by which factor a prediction is typically off, in percent of the
    cost: 0 is exact, 100 is twice or half of it.
    """

    version: Annotated[
        Digest | None, Field(max_length=64, description="The version in effect; if unset, the running mean is.")
    ] = None
    candidate: Annotated[
        Digest | None, Field(max_length=64, description="The version that is compared with what is in effect.")
    ] = None
    candidate_percent: Annotated[
        int | None, Field(ge=0, le=100, description="Percentage of runs that use the candidate.")
    ] = None
    samples: Annotated[int | None, Field(ge=0, description="Finished runs in the store.")] = None
    version_error_percent: Annotated[
        int | None, Field(ge=0, description="Error of the version in effect, on the runs of the last hours.")
    ] = None
    candidate_error_percent: Annotated[
        int | None, Field(ge=0, description="Error of the candidate, on the runs on which it was compared.")
    ] = None
    compared_error_percent: Annotated[
        int | None, Field(ge=0, description="Error of what the candidate is compared with, on the same runs.")
    ] = None
    compared_runs: Annotated[int | None, Field(ge=0, description="Finished runs that the candidate predicted.")] = None
    trained: Annotated[datetime | None, Field(description="When the last training began.")] = None
    trained_samples: Annotated[
        int | None, Field(ge=0, description="Finished runs that were in the store at that time.")
    ] = None
    history: Annotated[
        tuple[Annotated[Digest, Field(max_length=64)], ...],
        Field(
            max_length=5,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
            description="Versions that were in effect before, the latest first.",
        ),
    ] = ()
    last_decision: Annotated[PredictorDecision | None, Field(description="The last decision, and its reason.")] = None
