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
    """The resource makes sense by itself and may do what it asks for. False is a mistake of its author."""

    RESOLVED_REFS = "ResolvedRefs"
    """All that the resource refers to exists and fits. False until the referred object is there."""

    READY = "Ready"
    """Requests are served on the resource's behalf."""

    ENGINES_AVAILABLE = "EnginesAvailable"
    """The pool's engines can take requests."""

    POOL_FAIRNESS = "PoolFairness"
    """Shares hold over the whole pool, not for each replica apart."""

    PROGRAMMED = "Programmed"
    """The pool's configuration of the latest generation is in force in every pod."""

    PREDICTOR_READY = "PredictorReady"
    """A trained version predicts the application's runs. Only where it asks for a predictor; it serves without."""

    SLO_MET = "SLOMet"
    """The application's objectives hold. Only where it declares any."""

    POLICY_IN_FORCE = "PolicyInForce"
    """The scheduler inside the engine orders by the configured policy. Only where it keeps the order."""

    RECONCILED = "Reconciled"
    """The operator decided about the resource and wrote what it decided. Only where it failed to: False."""


class Reason(StrEnum):
    """Why a condition has its status."""

    ACCEPTED = "Accepted"
    """Accepted: nothing is wrong with the resource."""

    PAUSED = "Paused"
    """Accepted: `spec.paused` is set; what exists stays as it is until it is unset. Of a pool, keys and
    rights are taken away meanwhile."""

    INVALID_SPEC = "InvalidSpec"
    """Not accepted: a field's value cannot be used; the message names the field."""

    ENGINE_ARGUMENT_REFUSED = "EngineArgumentRefused"
    """Not accepted: an argument or a variable of the engine would override what the operator sets, or do what the
    scheduler does not know of. The engines stay as they were."""

    NODE_CACHE_NOT_OFFERED = "NodeCacheNotOffered"
    """Not accepted: the pool wants its models kept on nodes, and the installation offers no folder there."""

    OBJECT_REFUSED = "ObjectRefused"
    """Not accepted: the API server refuses an object that the resource asks for; the message is the server's."""

    OBJECT_NOT_OURS = "ObjectNotOurs"
    """Not accepted: an object that the resource needs exists already and is somebody else's. It is left as it is; the
    message names it and says what to do."""

    FIELDS_ADDED = "FieldsAdded"
    """Not accepted: somebody adds fields to an object of the resource again and again. They are left there, and taken
    out again later; the message names the object, the fields and who adds them."""

    FIELDS_REMOVED = "FieldsRemoved"
    """Of an Event: somebody had added fields to an object of the resource. They were taken out; the message names the
    object, the fields and who added them."""

    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    """Not accepted: the Tenant does not allow applications from this namespace."""

    POOL_NAME_TAKEN = "PoolNameTaken"
    """Not accepted: the inline pool's name belongs to a ServingPool that the application does not own."""

    INLINE_POOL_REFUSED = "InlinePoolRefused"
    """Not accepted: the inline pool asks for what the installation gives no leave for; the message names the field. A
    pool that was made before stays as it was."""

    RESOLVED_REFS = "ResolvedRefs"
    """All references resolved."""

    TENANT_NOT_FOUND = "TenantNotFound"
    """No Tenant of the name in `tenantRef`."""

    POOL_NOT_FOUND = "PoolNotFound"
    """No ServingPool of the name in `poolRef` in the application's namespace."""

    REF_NOT_PERMITTED = "RefNotPermitted"
    """The ServingPool is another namespace's, and is not there or does not allow the application's namespace: which of
    the two is not told."""

    REFERENT_NOT_ACCEPTED = "ReferentNotAccepted"
    """The Tenant or ServingPool that is referred to is there but not accepted: see its condition Accepted."""

    UNKNOWN_TIER = "UnknownTier"
    """The Tenant's tier is not among the pool's `scheduling.tiers`."""

    SECRET_NOT_FOUND = "SecretNotFound"
    """A Secret in `apiKeys`, or the key in it, does not exist in the namespace where the operator reads key Secrets."""

    KEY_TOO_SHORT = "KeyTooShort"
    """An API key has fewer than 16 bytes: it could be guessed, and is not used."""

    DUPLICATE_KEY = "DuplicateKey"
    """The API key already belongs to an older Tenant: it is not used for this one."""

    KIND_NOT_INSTALLED = "KindNotInstalled"
    """The cluster lacks a kind of another project that the pool asks for. That object alone is left out; it is made
    once the kind is installed."""

    SERVING = "Serving"
    """Ready: requests are served."""

    NOT_ACCEPTED = "NotAccepted"
    """Not ready because not accepted: see the condition Accepted."""

    REFS_NOT_RESOLVED = "RefsNotResolved"
    """Not ready because a reference is not resolved: see the condition ResolvedRefs."""

    NO_APPLICATIONS = "NoApplications"
    """Not ready because no application refers to the tenant: there is nothing that a client could ask."""

    POOL_NOT_READY = "PoolNotReady"
    """Not ready because the application's pool is not."""

    ALL_AVAILABLE = "AllAvailable"
    """Every engine of the pool takes requests."""

    SOME_AVAILABLE = "SomeAvailable"
    """Some engines of the pool take requests, others do not yet."""

    NONE_AVAILABLE = "NoneAvailable"
    """No engine of the pool takes requests."""

    INSUFFICIENT_ACCELERATORS = "InsufficientAccelerators"
    """No node has the accelerators for a further engine. Those that serve go on; with rollout Surge a changed engine
    needs spare ones."""

    ENGINE_NOT_PLACED = "EngineNotPlaced"
    """No node will take an engine, for another reason than accelerators; the message is the scheduler's."""

    IMAGE_NOT_AVAILABLE = "ImageNotAvailable"
    """An image of an engine cannot be pulled. Engines that serve go on."""

    ENGINE_NOT_STARTING = "EngineNotStarting"
    """An engine does not start, or ends again and again; the message says where its log is. Those that serve go on."""

    ENGINE_OUT_OF_MEMORY = "EngineOutOfMemory"
    """An engine wanted more memory than its limit, and was ended. Those that serve go on."""

    ENGINE_STARTING = "EngineStarting"
    """An engine loads its model; the message says for how long, and how long it may. Those that serve go on."""

    SINGLE_REPLICA = "SingleReplica"
    """One engine serves the pool, so its shares are the pool's."""

    POLICY_WITHOUT_SHARES = "PolicyWithoutShares"
    """The pool's policy knows no weights: nobody has a share."""

    PER_REPLICA = "PerReplica"
    """Each replica shares its own engine among the tenants it sees; over the pool the shares may differ."""

    PROGRAMMED = "Programmed"
    """Every pod has said that the latest configuration is in force there."""

    NO_PODS = "NoPods"
    """No pod of the pool runs a scheduler yet."""

    NOT_REACHABLE = "NotReachable"
    """A pod does not take the configuration from the operator. It serves on, and takes it from its volume within
    minutes."""

    OVERRIDDEN = "Overridden"
    """A pod runs other documents than the operator wrote: somebody else has its pool's token. The operator tells it
    those that were written, again and again."""

    CONFIGURED = "Configured"
    """The engine orders by the configuration in force."""

    NOT_CONNECTED = "NotConnected"
    """The scheduler inside the engine is not connected: it gets no tickets and no configuration."""

    ENGINE_NOT_SUPPORTED = "EngineNotSupported"
    """The scheduler is not made for the engine's vLLM: requests are ordered in front of it."""

    OUTDATED = "Outdated"
    """The engine orders by an earlier configuration, or has not said by which."""

    POLICY_FAILED = "PolicyFailed"
    """The policy raised an error and is dismissed: requests are served in the order of arrival."""

    OTHER = "Other"
    """A pod's scheduler, of another release, gives a reason that this operator does not know; the message has it."""

    OPERATOR_FAILED = "OperatorFailed"
    """The operator failed at this resource. What it made before stays as it is, and it tries again; the message says
    where to look."""

    NO_STORE = "NoStore"
    """The application asks for a predictor, and its pool has no `learning.store`."""

    COLLECTING = "Collecting"
    """No version yet: there are fewer finished runs than `minimumSamples`."""

    TRAINING = "Training"
    """The first version is being trained."""

    TRAINING_FAILED = "TrainingFailed"
    """The last training did not end well; the message says why, and when it is tried again."""

    COMPARING = "Comparing"
    """No version is in force; a candidate predicts live runs and is compared with the running mean."""

    PREDICTING = "Predicting"
    """A version is in force."""

    NOT_LOADED = "NotLoaded"
    """No pod could load the version in force; the message says why. The running mean is used."""

    PROMOTED = "Promoted"
    """Of a decision: the candidate came in force."""

    REJECTED = "Rejected"
    """Of a decision: the candidate did not show smaller errors, and was dropped."""

    ROLLED_BACK = "RolledBack"
    """Of a decision: the version's errors were shown to be larger than the running mean's, or it could not be loaded,
    and the one before it came in force again."""

    TRAINED = "Trained"
    """Of a decision: a training brought a new candidate."""

    PINNED = "Pinned"
    """Of a decision: `spec.predictor.version` was put in force."""

    MET = "Met"
    """Every objective holds over its window."""

    AT_RISK = "AtRisk"
    """Every objective holds over its window, and the error budget of one is spent so fast that it soon may not."""

    MISSED = "Missed"
    """An objective does not hold over its window: more requests than it allows were beyond its bound."""

    UNATTAINABLE = "Unattainable"
    """An objective misses, and no order of the requests that the pool allows holds it: the load is too large for its
    engines, or another objective asks for the opposite. The message says how many engines would do."""

    NOTHING_OBSERVED = "NothingObserved"
    """No request of the application is known in the window."""


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
