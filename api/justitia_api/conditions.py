"""Conditions of the three resources and their reasons: what status says, and what a user can do about it.

Every condition is True, False or Unknown, carries one of the reasons below, a message for people, and the generation
of the resource that it was computed from.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from justitia_api.config import Document


class ConditionType(StrEnum):
    """What a condition is about."""

    ACCEPTED = "Accepted"
    """The resource is valid by itself and may do what it asks for. False is a mistake of its author."""

    RESOLVED_REFS = "ResolvedRefs"
    """Everything that the resource refers to exists and fits. False until it does."""

    READY = "Ready"
    """Requests are served on the resource's behalf."""

    ENGINES_AVAILABLE = "EnginesAvailable"
    """The pool's engines can take requests."""

    POOL_FAIRNESS = "PoolFairness"
    """Shares hold over the whole pool, and not only within each replica."""

    PROGRAMMED = "Programmed"
    """The pool's latest configuration is in effect in every pod."""

    PREDICTOR_READY = "PredictorReady"
    """A trained version predicts the application's runs. Present only if the application asks for a predictor; it is
    served without one as well.
    """

    SLO_MET = "SLOMet"
    """The application's objectives are met. Present only if it declares any."""

    POLICY_IN_EFFECT = "PolicyInEffect"
    """The plug-in inside the engine orders by the configured policy. Present only if the order is kept inside the
    engine.
    """

    RECONCILED = "Reconciled"
    """The operator has decided about the resource and written what it decided. Present only after a failure, and then
    False.
    """


class Reason(StrEnum):
    """Why a condition has its status."""

    ACCEPTED = "Accepted"
    """Accepted: nothing is wrong with the resource."""

    PAUSED = "Paused"
    """Accepted: `spec.paused` is true, so what exists stays as it is. Keys and rights that are removed are still taken
    away from a pool's pods.
    """

    INVALID_SPEC = "InvalidSpec"
    """Not accepted: a field's value cannot be used. The message names the field."""

    ENGINE_ARGUMENT_REFUSED = "EngineArgumentRefused"
    """Not accepted: an argument or a variable of the engine would override what the operator sets, or would do what the
    plug-in cannot see. The engines stay as they were.
    """

    NODE_CACHE_NOT_OFFERED = "NodeCacheNotOffered"
    """Not accepted: the pool wants its models cached on nodes, and the installation offers no folder for that."""

    OBJECT_REFUSED = "ObjectRefused"
    """Not accepted: the API server refuses an object that the resource needs. The message is the server's."""

    OBJECT_NOT_OURS = "ObjectNotOurs"
    """Not accepted: an object that the resource needs exists already and belongs to somebody else. It is left as it is.
    The message names it and says what to do.
    """

    FIELDS_ADDED = "FieldsAdded"
    """Not accepted: somebody adds fields to an object of the resource again and again. They are left there for now, and
    removed later. The message names the object, the fields and who adds them.
    """

    FIELDS_REMOVED = "FieldsRemoved"
    """In an Event: somebody had added fields to an object of the resource, and they were removed. The message names the
    object, the fields and who added them.
    """

    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    """Not accepted: the Tenant does not allow applications from this namespace."""

    POOL_NAME_TAKEN = "PoolNameTaken"
    """Not accepted: a ServingPool that does not belong to the application has the inline pool's name."""

    INLINE_POOL_REFUSED = "InlinePoolRefused"
    """Not accepted: the inline pool asks for something that the installation does not permit. The message names the
    field. A pool that was made before stays as it was.
    """

    RESOLVED_REFS = "ResolvedRefs"
    """All references are resolved."""

    TENANT_NOT_FOUND = "TenantNotFound"
    """There is no Tenant with the name in `tenantRef`."""

    POOL_NOT_FOUND = "PoolNotFound"
    """There is no ServingPool with the name in `poolRef` in the application's namespace."""

    REF_NOT_PERMITTED = "RefNotPermitted"
    """The ServingPool is in another namespace, and either does not exist or does not allow the application's namespace.
    Which of the two is not disclosed.
    """

    REFERENT_NOT_ACCEPTED = "ReferentNotAccepted"
    """The Tenant or ServingPool exists but is not accepted: see its condition Accepted."""

    UNKNOWN_TIER = "UnknownTier"
    """The Tenant's tier is not among the pool's `scheduling.tiers`."""

    SECRET_NOT_FOUND = "SecretNotFound"
    """A Secret in `apiKeys`, or its entry, does not exist in the namespace where the operator reads key Secrets."""

    KEY_TOO_SHORT = "KeyTooShort"
    """An API key has fewer than 16 bytes. It could be guessed, so it is not used."""

    DUPLICATE_KEY = "DuplicateKey"
    """The API key already belongs to an older Tenant, so it is not used for this one."""

    KIND_NOT_INSTALLED = "KindNotInstalled"
    """The cluster lacks a kind of another project that the pool asks for. Only that object is left out. It is made once
    the kind is installed.
    """

    SERVING = "Serving"
    """Ready: requests are served."""

    NOT_ACCEPTED = "NotAccepted"
    """Not ready because it is not accepted: see the condition Accepted."""

    REFS_NOT_RESOLVED = "RefsNotResolved"
    """Not ready because a reference is not resolved: see the condition ResolvedRefs."""

    NO_APPLICATIONS = "NoApplications"
    """Not ready because no application refers to the tenant, so there is nothing that its clients could use."""

    POOL_NOT_READY = "PoolNotReady"
    """Not ready because the application's pool is not ready."""

    ALL_AVAILABLE = "AllAvailable"
    """Every engine of the pool takes requests."""

    SOME_AVAILABLE = "SomeAvailable"
    """Some engines of the pool take requests, others do not yet."""

    NONE_AVAILABLE = "NoneAvailable"
    """No engine of the pool takes requests."""

    INSUFFICIENT_ACCELERATORS = "InsufficientAccelerators"
    """No node has free accelerators for a further engine. Engines that serve go on. With rollout Surge, a changed
    engine needs spare accelerators.
    """

    ENGINE_NOT_PLACED = "EngineNotPlaced"
    """No node accepts an engine, for another reason than accelerators. The message is the Kubernetes scheduler's."""

    IMAGE_NOT_AVAILABLE = "ImageNotAvailable"
    """An image of an engine cannot be pulled. Engines that serve go on."""

    ENGINE_NOT_STARTING = "EngineNotStarting"
    """An engine does not start, or ends repeatedly. The message says where its log is. Engines that serve go on."""

    ENGINE_OUT_OF_MEMORY = "EngineOutOfMemory"
    """An engine was OOM-killed: it needed more memory than its limit. Engines that serve go on."""

    ENGINE_STARTING = "EngineStarting"
    """An engine is loading its model. The message says for how long, and how long it may take. Engines that serve go
    on.
    """

    SINGLE_REPLICA = "SingleReplica"
    """One engine serves the pool, so its shares are the pool's."""

    POLICY_WITHOUT_SHARES = "PolicyWithoutShares"
    """The pool's policy has no weights, so nobody has a share."""

    SHARED = "Shared"
    """The pool's engines know of each other what they served, and share as one engine would."""

    PER_REPLICA = "PerReplica"
    """Each replica shares its own engine among the tenants that it sees. Over the whole pool the shares may differ."""

    NOT_REACHED = "NotReached"
    """An engine does not know what the others served, because it does not reach the pool's Valkey, or because another
    one does not. It shares by itself until then. The message names the pod and says why.
    """

    PROGRAMMED = "Programmed"
    """Every pod has confirmed that the latest configuration is in effect there."""

    NO_PODS = "NoPods"
    """No pod of the pool runs a sidecar yet."""

    NOT_REACHABLE = "NotReachable"
    """A pod does not accept the configuration from the operator. It serves on, and reads it from its volume within
    minutes.
    """

    OVERRIDDEN = "Overridden"
    """A pod runs other documents than the operator wrote: somebody else has the pool's token. The operator sends what
    it wrote again and again.
    """

    CONFIGURED = "Configured"
    """The engine orders by the configuration in effect."""

    NOT_CONNECTED = "NotConnected"
    """The plug-in inside the engine is not connected: it gets neither tickets nor the configuration."""

    ENGINE_NOT_SUPPORTED = "EngineNotSupported"
    """The plug-in does not support the engine's vLLM: requests are ordered in front of it."""

    OUTDATED = "Outdated"
    """The engine orders by an earlier configuration, or has not said by which."""

    POLICY_FAILED = "PolicyFailed"
    """The policy raised an error and is dismissed: requests are served in the order of arrival."""

    OTHER = "Other"
    """A sidecar of another release gives a reason that this operator does not know. The message has it."""

    OPERATOR_FAILED = "OperatorFailed"
    """The operator failed at this resource. What it made before stays as it is, and it tries again. The message says
    where to look.
    """

    NO_STORE = "NoStore"
    """The application asks for a predictor, and its pool has no `learning.store`."""

    COLLECTING = "Collecting"
    """No version yet: fewer than `minimumSamples` runs have finished."""

    TRAINING = "Training"
    """The first version is being trained."""

    TRAINING_FAILED = "TrainingFailed"
    """The last training failed. The message says why, and when it is tried again."""

    COMPARING = "Comparing"
    """No version is in effect. A candidate predicts live runs and is compared with the running mean."""

    PREDICTING = "Predicting"
    """A version is in effect."""

    NOT_LOADED = "NotLoaded"
    """No pod could load the version in effect. The message says why. The running mean is used."""

    PROMOTED = "Promoted"
    """As a decision: the candidate took effect."""

    REJECTED = "Rejected"
    """As a decision: the candidate did not show smaller errors, and was dropped."""

    ROLLED_BACK = "RolledBack"
    """As a decision: the version's errors were shown to be larger than the running mean's, or it could not be loaded,
    so the one before it took effect again.
    """

    TRAINED = "Trained"
    """As a decision: a training produced a new candidate."""

    PINNED = "Pinned"
    """As a decision: the version in `spec.predictor.version` took effect."""

    MET = "Met"
    """Every objective is met over its window."""

    AT_RISK = "AtRisk"
    """Every objective is met over its window, but the error budget of one is spent so fast that it soon may not be."""

    MISSED = "Missed"
    """An objective is not met over its window: more requests than it allows were beyond its bound."""

    UNATTAINABLE = "Unattainable"
    """An objective is missed, and no order of the requests that the pool allows would meet it: the load is too large
    for its engines, or another objective asks for the opposite. The message says how many engines would be enough.
    """

    NOTHING_OBSERVED = "NothingObserved"
    """No request of the application was observed in the window."""


class Condition(Document):
    """One observation about a resource, as Kubernetes' metav1.Condition."""

    type: Annotated[str, Field(max_length=64, description="What the condition is about, for example Ready.")]
    status: Annotated[Literal["True", "False", "Unknown"], Field(description="Whether the condition holds.")]
    reason: Annotated[str, Field(max_length=128, description="Why, as one CamelCase word for programs.")]
    message: Annotated[str, Field(max_length=4096, description="Why, for people, and what to do about it.")]
    observed_generation: Annotated[
        int, Field(ge=0, description="The metadata.generation of the resource that the condition was computed from.")
    ]
    last_transition_time: Annotated[datetime, Field(description="When the status last changed.")]
