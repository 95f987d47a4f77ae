"""What is open in a policy: runs and requests, with what happened to them so far; and what a host may do wrong."""

from dataclasses import dataclass, field
from enum import Enum

from justitia_scheduling.core.model import Request, Run
from justitia_vocabulary.units import KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens


class RequestState(Enum):
    """Where a request is. Finished and aborted requests are forgotten."""

    WAITING = "waiting"
    RUNNING = "running"


class UnknownIdError(KeyError):
    """The host named a run or request that it has not announced, or that is over."""


class EventOrderError(ValueError):
    """The host told events in an order that cannot happen, such as admitting a running request."""


@dataclass(slots=True, eq=False)
class OpenRun:
    """A run that has arrived and not ended.

    `kv_token_time` and `attained` are what has been delivered to it, `attained` in the unit in which the policy counts
    a run's cost. `aborted` says that one of its requests was aborted.
    """

    run: Run
    sequence: int
    arrival: Seconds
    kv_token_time: KVTokenTime = 0.0
    attained: float = 0.0
    aborted: bool = False
    requests: set[RequestId] = field(default_factory=set)
    id: RunId = field(init=False)
    tenant: TenantId = field(init=False)

    def __post_init__(self) -> None:
        self.id, self.tenant = self.run.id, self.run.tenant


@dataclass(slots=True, eq=False)
class OpenRequest:
    """A request that has arrived and is neither finished nor aborted.

    `charged` is in the cost model's unit. `cached` prompt tokens were in the prefix cache when it was first admitted:
    they cost nothing. `prefilled` prompt tokens were processed and `produced` output tokens made, each counted once in
    the request's life. `begun` says that it has been admitted. `waits_since` is the number of the event since which it
    waits, or last waited: its arrival or a preemption.
    """

    request: Request
    run: OpenRun
    sequence: int
    arrival: Seconds
    status: RequestState = RequestState.WAITING
    prefilled: Tokens = 0
    produced: Tokens = 0
    preemptions: int = 0
    cached: Tokens = 0
    charged: float = 0.0
    begun: bool = False
    waits_since: int = field(init=False)
    id: RequestId = field(init=False)
    tenant: TenantId = field(init=False)

    def __post_init__(self) -> None:
        self.waits_since = self.sequence
        self.id, self.tenant = self.request.id, self.run.tenant

    @property
    def processed(self) -> Tokens:
        return self.prefilled + self.produced

    @property
    def tokens(self) -> Tokens:
        """Its prompt and what it has produced: what it holds while it runs, and has to be read when it is admitted."""
        return self.request.prompt_tokens + self.produced

    @property
    def waits_again(self) -> bool:
        """Whether it waits since a preemption."""
        return self.preemptions > 0 and self.status is RequestState.WAITING

    @property
    def place_in_line(self) -> int:
        """Its number in a line by arrival. A preempted request goes to the front: its number is negative."""
        return -self.waits_since if self.waits_again else self.sequence
