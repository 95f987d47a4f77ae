"""Whether a request is expected to miss an objective when it arrives, and what becomes of it then.

What is expected follows from what waits and from what the engine was seen to do (`scheduling`'s `objectives/reach.py`),
never from what a client says of its requests, except that an output ends at `max_tokens`. Nothing is expected before a
request of the application has finished and the engine's step time is known, and under policies without shares.

A request before which nothing of its application waits is served as any other, whatever is expected: to send it later
would not help, and if all were refused nothing would be learned any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from justitia_api.config import ApplicationConfig, PoolConfig
from justitia_api.wire import Refusal
from justitia_scheduling.core.asked import Asked
from justitia_scheduling.core.model import ApplicationShare
from justitia_scheduling.objectives.reach import Pace, Waiting, begins_after, reach
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.amounts import WaitingAmount
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.objectives import BeyondObjective, MetricName
from justitia_vocabulary.policies import PolicyName
from justitia_vocabulary.units import Seconds, TenantId, Tokens


@dataclass(frozen=True, slots=True)
class Beyond:
    """What a request is expected to show beyond the bounds of its application, in seconds, by metric; and what becomes
    of it.
    """

    action: BeyondObjective
    expected: Mapping[MetricName, Seconds]
    bounds: Mapping[MetricName, Seconds]

    @property
    def deferred(self) -> bool:
        return self.action is BeyondObjective.DEFER

    @property
    def _worst(self) -> MetricName:
        return max(self.expected, key=lambda metric: self.expected[metric] / self.bounds[metric])

    @property
    def header(self) -> bytes:
        """The value of the header that says so."""
        worst = self._worst
        said = f"{worst.value}; expected={self.expected[worst]:.4g}; bound={self.bounds[worst]:.4g}"
        return (f"{said}; deferred" if self.deferred else said).encode()

    @property
    def refusal(self) -> RefusalError:
        worst = self._worst
        expected, bound = self.expected[worst], self.bounds[worst]
        return RefusalError(
            Refusal.BEYOND_OBJECTIVE,
            f"{worst.name.replace('_', ' ').capitalize()} is expected after {expected:.3g} s, by what waits before "
            f"this request, and the application's objective is {bound:.3g} s: retry later, or send less at a time.",
            retry_after=expected - bound,
        )


def beyond_objective(
    config: PoolConfig,
    application: ApplicationConfig,
    admission: Admission,
    *,
    prompt: Tokens,
    max_tokens: Tokens | None,
    streamed: bool,
    now: Seconds,
) -> Beyond | None:
    """What is expected beyond the application's bounds. None if nothing is, or nothing is known."""
    bounds = _bounds(application, streamed=streamed)
    if not bounds or config.scheduling.policy is not PolicyName.TIERED_JUSTITIA:
        return None
    books, times = admission.books, admission.step_time
    mean = books.outputs.mean(application.id)
    if mean is None or times is None:
        return None
    books.amounts.lapse(now)
    begun = books.amounts.begun
    pace = Pace(times, begun.sequences, begun.prompts + round(begun.sequences * mean / 2))
    tenant, amounts = TenantId(application.tenant), books.amounts
    own = {
        name: Waiting(
            _work(amount, pace, books.outputs.mean(name) or mean, boosted_only=name == application.id),
            books.share_of(name) or ApplicationShare(),
        )
        for name, amount in amounts.waiting.get(tenant, {}).items()
    }
    others = ((books.weight(each), pace.work(asked)) for each, asked in amounts.asked.items() if each != tenant)
    begins = begins_after(application.id, own, books.weight(tenant), others)
    found = reach(begins, pace, prompt, mean if max_tokens is None else min(max_tokens, mean))
    values = {MetricName.TIME_TO_FIRST_TOKEN: found.first_token, MetricName.REQUEST_COMPLETION: found.completion}
    expected = {metric: values[metric] for metric, bound in bounds.items() if values[metric] > bound}
    action = application.beyond_objective if begins else BeyondObjective.SAY
    return Beyond(action, expected, bounds) if expected else None


def _bounds(application: ApplicationConfig, *, streamed: bool) -> dict[MetricName, Seconds]:
    """The largest bound for each metric that the request will show and that a queue decides."""
    bounds: dict[MetricName, Seconds] = {}
    for each in application.objectives:
        shown = each.metric is MetricName.REQUEST_COMPLETION or (
            streamed and each.metric is MetricName.TIME_TO_FIRST_TOKEN
        )
        if shown:
            bounds[each.metric] = max(bounds.get(each.metric, 0.0), each.bound_milliseconds / 1000)
    return bounds


def _work(amount: WaitingAmount, pace: Pace, output: float, *, boosted_only: bool) -> Seconds:
    """Engine seconds of what waits. Of its own application only boosted requests go before a boosted one."""
    parts = [amount.boosted] if boosted_only else [amount.boosted, amount.others]
    return sum(pace.work(Asked.of(part.sequences, part.prompts, output)) for part in parts)
