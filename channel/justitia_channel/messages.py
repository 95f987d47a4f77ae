"""What the sidecar and the plug-in inside the engine tell each other. Version 1.

To the engine: `Hello`, `Configure`, `Ticket` (before the request that it is for), `RunEnded`, `Elsewhere`, `AskQueue`.
From it: `Hello`, `Arrived`, `Admitted`, `Closed`, `Delivered`, `PlugInSnapshot`, `Queue`. Each side sends `Hello`
first; another version ends the connection. Fields that a reader does not know are passed over, and missing ones have
their defaults, so that two releases understand each other.

A request's key is the id that the sidecar gives to the engine's server, 32 hexadecimal digits; the engine makes one or
more sequences of it, told apart by their number: `SEQUENCES_PER_PROMPT` times the prompt's index, plus the choice's.
"""

from typing import Annotated

from msgspec import Meta, Struct

from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.report import PolicyReport
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RunId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason

VERSION = 1
SEQUENCES_PER_PROMPT = 1 << 16

NotNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]


class _Message(Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="kind", tag=str.lower):
    """A message has the tag of its class, unless it names another: what an earlier release says and expects stays."""


class About(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an engine says of itself: vLLM's version, KV space and block size in tokens, its data-parallel index, and
    why it does not keep the order, if it does not.
    """

    vllm: str | None = None
    kv_tokens: Tokens | None = None
    block_size: Tokens | None = None
    index: int | None = None
    unsupported: str | None = None


class Hello(_Message, frozen=True):
    """Who speaks. `instance` differs from process to process."""

    version: int
    instance: str
    about: About = About()


class Share(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How an application shares its tenant's service: by weight with those of its priority."""

    weight: NotNegative = 1.0
    priority: int = 0


class Configure(_Message, frozen=True):
    """How to order from this moment on: policy and cost model by name, weights by tenant, the policy's knobs by the
    values of `Knob`, the shares of all applications. A knob that is not named has its default. `pooled`: other engines
    share the pool, so `Delivered` is wanted.
    """

    generation: int
    policy: str
    cost_model: str
    weights: dict[str, NotNegative]
    knobs: dict[str, NotNegative] = {}
    applications: dict[ApplicationId, Share] = {}
    pooled: bool = False


class Ticket(_Message, frozen=True):
    """Whose a request is, and what is predicted of its run, in KV token-time. The engine makes so many `sequences` of
    it. `boosted_for` asks for a place by its tail for so many seconds. `sent` is the moment on the machine's monotonic
    clock, which both ends share.
    """

    key: str
    tenant: TenantId
    application: ApplicationId
    run: RunId
    sequences: int = 1
    run_cost: Annotated[KVTokenTime, Meta(ge=0)] | None = None
    boosted_for: Annotated[Seconds, Meta(ge=0)] | None = None
    sent: Annotated[Seconds, Meta(ge=0)] | None = None


class RunEnded(_Message, frozen=True):
    """No request of the run will come again."""

    run: RunId


class RunOfPool(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A run that has requests in other engines of the pool, and what it was predicted to cost."""

    run: RunId
    tenant: TenantId
    application: ApplicationId
    run_cost: Annotated[KVTokenTime, Meta(ge=0)] | None = None


class Elsewhere(_Message, frozen=True):
    """What the pool's other engines did. `service` is what they have served tenants since the sidecar began to count,
    in `unit`: totals, of those that have grown. What was `delivered` to runs is what came since the last message.
    """

    unit: str
    service: dict[TenantId, NotNegative] = {}
    opened: list[RunOfPool] = []
    delivered: dict[RunId, NotNegative] = {}


class AskQueue(_Message, frozen=True):
    """Asks for a `Queue` of at most `limit` requests."""

    limit: int


class Arrived(_Message, frozen=True):
    """The first sequence of a request has come to the engine's scheduler."""

    key: str


class Admitted(_Message, frozen=True):
    """A sequence joined the batch for the first time."""

    key: str
    sequence: int


class Closed(_Message, frozen=True):
    """A sequence is over, finished or aborted: what the engine did for it, and what its tenant was charged. `read` are
    the prompt's tokens that it computed, fewer than all where it was aborted meanwhile.
    """

    key: str
    sequence: int
    finished: bool
    prompt_tokens: Tokens
    cached: Tokens
    produced: Tokens
    preemptions: int
    charge: NotNegative
    read: Tokens = 0


class Delivered(_Message, frozen=True):
    """What the engine has delivered to runs since the last such message, in the unit of a run's cost. Sent where other
    engines share the pool.
    """

    runs: dict[RunId, KVTokenTime]


class PlugInSnapshot(_Message, frozen=True, tag="snapshot"):
    """The plug-in's state and counters, about once a second. Counters count from the engine's start, those of a policy
    from its own. Service is in `unit`, the cost model's; that of applications is of those that are configured. Times
    are in seconds; `longest...` are those since the last snapshot. `generation` is that of the configuration in effect,
    -1 before the first. `dismissed`: the policy has failed. `kept_tokens` are held for runs that pause between two
    requests; such contexts are `taken_over` by the next request or `given_up`.
    """

    generation: int = -1
    dismissed: bool = False
    failures: int = 0
    failure: str = ""
    malformed: int = 0
    dropped_in: int = 0
    dropped_out: int = 0
    decisions: int = 0
    decision_seconds: Seconds = 0.0
    longest_decision: Seconds = 0.0
    waiting: int = 0
    running: int = 0
    open_runs: int = 0
    service: dict[TenantId, float] = {}
    application_service: dict[ApplicationId, float] = {}
    unit: str = ""
    kv_token_time: dict[TenantId, KVTokenTime] = {}
    unticketed: int = 0
    late_tickets: int = 0
    forgotten_tickets: int = 0
    preemptions: int = 0
    evictions: int = 0
    revisions: int = 0
    tickets: int = 0
    ticket_lag: Seconds = 0.0
    longest_ticket_lag: Seconds = 0.0
    kept_tokens: Tokens = 0
    contexts_taken_over: int = 0
    contexts_given_up: int = 0
    step_time: StepTime | None = None
    policy: PolicyReport = PolicyReport()


class WaitingRequest(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A request of which so many `sequences` wait. `rank` is its place in the policy's order, from 1; None: the policy
    does not know of it. Tenant and application are None where only the sidecar knows whose it is.
    """

    key: str
    reason: WaitingReason
    prompt_tokens: Tokens
    sequences: int = 1
    rank: int | None = None
    tenant: TenantId | None = None
    application: ApplicationId | None = None
    run: str = ""
    preemptions: int = 0
    waiting_seconds: Seconds = 0.0
    order_key: dict[str, float] = {}


class Queue(_Message, frozen=True):
    """How many requests wait, and the first in order, each with why it waits."""

    waiting: int
    requests: list[WaitingRequest]


Message = (
    Hello
    | Configure
    | Ticket
    | RunEnded
    | Elsewhere
    | AskQueue
    | Arrived
    | Admitted
    | Closed
    | Delivered
    | PlugInSnapshot
    | Queue
)
