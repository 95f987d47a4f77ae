"""When a request that arrives would begin and end under the gate, given what waits: whether its bound is in reach.

A fluid server serves tenants that wait by weight, and each tenant's applications by theirs, those of a higher priority
first. Beside others that have work b_i and weight w_i, somebody of weight w has been served x at the moment

    x + the sum over the others of min(b_i, w_i x / w)

because by then each of them has had w_i x / w, or all that it wants (`fair_time`). This is never more than x W / w,
with W the weights of all that wait: so however much others send, it delays a request by no more than its share implies.

Assumptions. Requests of the application that wait go before this one, each is as long as its application's are on
average, and their prompts are in no cache. Nothing else arrives. All counters are equal: a tenant that is ahead of its
share begins later, one that is behind begins earlier. A full engine lets in as much work as it finishes, and an engine
for which nothing of the tenant waits has room. A request decodes at the pace of the present step.

Units: seconds, tokens; work is in engine seconds. No clock here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from justitia_scheduling.core.asked import Asked
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.model import ApplicationShare
from justitia_vocabulary.units import ApplicationId, Seconds, Tokens


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the engine is while it has `running` sequences with `resident` KV tokens."""

    times: StepTime
    running: int
    resident: Tokens

    @property
    def step(self) -> Seconds:
        t = self.times
        return t.per_step + t.per_token * self.running + t.per_kv_token * self.resident

    def reading(self, prompt: Tokens) -> Seconds:
        """The time until the first token of a request that has begun."""
        return self.times.per_step + self.times.per_token * prompt

    def work(self, asked: Asked) -> Seconds:
        """The part of the engine's time that sequences take: their prompts, their part of each step, and the KV that is
        read for them.
        """
        t, (prompts, outputs, kv_read) = self.times, asked
        each = t.per_step / max(1, self.running) + t.per_token
        return t.per_token * prompts + each * outputs + t.per_kv_token * kv_read


class Waiting(NamedTuple):
    """What waits of an application, and how it shares its tenant's service."""

    work: Seconds
    share: ApplicationShare = ApplicationShare()


OfTenant = Mapping[ApplicationId, Waiting]


class Reach(NamedTuple):
    """When a request is expected to have its first token, and its last one, in seconds after its arrival."""

    first_token: Seconds
    completion: Seconds


def fair_time(work: Seconds, weight: float, others: Iterable[tuple[float, Seconds]]) -> Seconds:
    """When a fluid server has served `work` of somebody with `weight`, beside others with (weight, work)."""
    if not work:
        return 0.0
    return work + sum(min(theirs, its * work / weight) for its, theirs in others)


def begins_after(
    application: ApplicationId, own: OfTenant, weight: float, others: Iterable[tuple[float, Seconds]]
) -> Seconds:
    """The expected time until a request that arrives now begins. `own` is what waits of its tenant, which has that
    `weight`; `others` are (weight, work) of the other tenants.
    """
    return fair_time(_before(application, own), weight, others)


def _before(application: ApplicationId, own: OfTenant) -> Seconds:
    """The work of the tenant that is served before a request of its application that arrives now."""
    mine = own.get(application)
    if mine is None or not mine.work:
        return 0.0
    others = [each for name, each in own.items() if name != application]
    first = sum(each.work for each in others if each.share.priority > mine.share.priority)
    beside = [(e.share.weight, e.work) for e in others if e.share.priority == mine.share.priority]
    return first + fair_time(mine.work, mine.share.weight, beside)


def reach(begins: Seconds, pace: Pace, prompt: Tokens, output: float) -> Reach:
    """What to expect of a request that begins then, with so long a prompt and output."""
    first_token = begins + pace.reading(prompt)
    return Reach(first_token, first_token + max(0.0, output - 1) * pace.step)
