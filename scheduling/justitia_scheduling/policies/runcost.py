"""What a run is expected to cost: from its prediction, and from what it shows. `tiered.py` keys runs by it.

A run's cost is what it takes from the engine, in KV token-time: C for holding KV while it decodes, and for each prompt
token `rho = c_tok / (c0/M + c_kv)`, what a full engine would have delivered while it read the token (`prompt_work` in
`cost.py`; 0 where step times are not known). C alone calls a run of long prompts and short answers cheap.

The estimate E begins with the predicted cost ("told"), as far as predictions have come true for the application, else
with the application's censored mean (`estimate.py` has both). What the run shows:

    known = attained + sum of (p d + d^2 / 2 + rho p) over its requests that have not been admitted yet

p is the request's prompt (what is expected of it, while it is not counted), d the mean output of its application's
finished requests (of the pool's while it has none, one token before any): d is measured, not claimed. As soon as
`known > theta * E`,

    E <- max(known, theta * attained)

So attained <= theta * E always, E grows by more than theta each time, and there are fewer than
`1 + log(K / E_0) / log(theta)` revisions, K the largest value of `known`. A large run is recognised when its first
wide stage arrives, not after it has been served for long.

*Renewal.* The estimate follows what is learnt of the application: a run that was estimated when nothing was known would
otherwise wait behind all that come after it. P is the E with which the run would begin if it arrived now:

    E <- P  where  E > RENEWED_BEYOND * P  and  RENEWED_BEYOND * shown <= theta * P

`shown` is the largest `known` so far: a run that began at P would not have been revised. Estimates are only lowered:
what is learnt later puts no run behind others. Each renewal divides E by more than `RENEWED_BEYOND`, and a revision
after one needs `shown` to have grown by as much, so both stay few (docs/design/tiered-justitia.md). When a run of the
application arrives or ends, `LOOKED_AT` of its open runs are looked at in turn: no event costs more where many wait.
"""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from itertools import islice

from justitia_scheduling.core.estimate import CensoredMean, Ratio, TrackRecord
from justitia_scheduling.core.model import Run, kv_token_time
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RequestId, RunId, TenantId

RENEWED_BEYOND = 1.1
"""A run's estimate is renewed when it exceeds this many times P."""

LOOKED_AT = 4
"""Open runs of the application that are looked at for renewal when one arrives or ends."""


@dataclass(slots=True)
class _Expected:
    """What is kept of an open run.

    `cost` is E, `theta` the factor at which it is revised, and `kappa` the one by which the run's tag is stretched.
    `told` and `mean` are the predicted cost and the application's mean when the run arrived, None if there was none.
    `unadmitted` is the expected cost of requests that have not been admitted, `shown` the largest cost known so far.
    """

    cost: KVTokenTime
    theta: float
    kappa: float
    told: KVTokenTime | None
    mean: KVTokenTime | None
    unadmitted: KVTokenTime = 0.0
    shown: KVTokenTime = 0.0


class RunCosts:
    """E of each open run, revised at `theta` if its cost was predicted, else at `theta_learned`. All in O(1).

    `kappa` is the stretch of runs that open from now on; None: that of each is its theta.
    """

    def __init__(self, theta: float, theta_learned: float, kappa: float | None = None) -> None:
        self.kappa = kappa
        self._theta, self._theta_learned = theta, theta_learned
        self._means = CensoredMean()
        self._records: defaultdict[ApplicationId, TrackRecord] = defaultdict(TrackRecord)
        self._of_tenants: defaultdict[TenantId, TrackRecord] = defaultdict(TrackRecord)
        self._outputs = Ratio()
        self._prompt_per_kv = Ratio()
        self._open: dict[RunId, _Expected] = {}
        self._in_turn: defaultdict[ApplicationId, OrderedDict[RunId, OpenRun]] = defaultdict(OrderedDict)
        self._requests: dict[RequestId, KVTokenTime] = {}

    def __getitem__(self, run: RunId) -> KVTokenTime:
        """E of an open run."""
        return self._open[run].cost

    def stretch(self, run: RunId) -> float:
        """kappa of an open run."""
        return self._open[run].kappa

    def stretched(self, run: RunId) -> KVTokenTime:
        """kappa * E of an open run."""
        expected = self._open[run]
        return expected.kappa * expected.cost

    def opened(self, run: OpenRun, prompt_work: KVTokenTime) -> None:
        """The run has arrived; `prompt_work` is rho."""
        application = run.run.application
        told = self._told(run.run, prompt_work)
        theta = self._theta_learned if told is None else self._theta
        kappa = theta if self.kappa is None else self.kappa
        mean = self._means.of(application)
        present = self._present(run.run, told)
        self._open[run.id] = _Expected(present, theta, kappa, told, mean)
        self._in_turn[application][run.id] = run

    def renewed(self, application: ApplicationId) -> list[OpenRun]:
        """Look at some of the application's open runs. Returns those whose estimate has fallen."""
        in_turn, fallen = self._in_turn[application], []
        for run in list(islice(in_turn.values(), LOOKED_AT)):
            in_turn.move_to_end(run.id)
            expected = self._open[run.id]
            cost = self._present(run.run, expected.told)
            if expected.cost > RENEWED_BEYOND * cost and expected.theta * cost >= RENEWED_BEYOND * expected.shown:
                expected.cost = cost
                fallen.append(run)
        return fallen

    def asked(self, request: OpenRequest, prompt_work: KVTokenTime) -> bool:
        """A request of the run has arrived. True if that changed the run's estimate."""
        p = request.request.expected_prompt or request.request.prompt_tokens
        d = max(1.0, self._outputs.of(request.run.run.application))
        self._requests[request.id] = expected = p * d + d * d / 2 + prompt_work * p
        self._open[request.run.id].unadmitted += expected
        return self._revised(request.run)

    def left(self, request: OpenRequest) -> None:
        """The request was admitted for the first time, or given up before."""
        self._open[request.run.id].unadmitted -= self._requests.pop(request.id)

    def attained(self, run: OpenRun, increment: KVTokenTime) -> bool:
        """The run was served. True if that changed its estimate."""
        self._means.attained(run, increment)
        return self._revised(run)

    def closed(self, request: OpenRequest, finished: bool) -> None:
        """The request is over."""
        application = request.run.run.application
        held = kv_token_time(request.request.prompt_tokens - request.cached, request.produced)
        self._prompt_per_kv.add_upper(application, request.prefilled)
        self._prompt_per_kv.add_lower(application, held)
        if finished:
            self._outputs.add_upper(application, request.produced)
            self._outputs.add_lower(application, 1)

    def ended(self, run: OpenRun) -> None:
        """The run is over."""
        expected = self._open.pop(run.id)
        del self._in_turn[run.run.application][run.id]
        if expected.told is not None and run.attained and not run.aborted:
            mean = expected.mean or self._means.estimate(run.run.application)
            self._records[run.run.application].finished(expected.told, mean, run.attained)
            self._of_tenants[run.tenant].finished(expected.told, self._means.of_pool, run.attained)
        self._means.ended(run)

    def _present(self, run: Run, told: KVTokenTime | None) -> KVTokenTime:
        """E of a run that arrives at this moment."""
        mean = self._means.estimate(run.application)
        if told is None:
            return mean
        return (self._records[run.application] or self._of_tenants[run.tenant]).expected(told, mean)

    def _told(self, run: Run, prompt_work: KVTokenTime) -> KVTokenTime | None:
        """The predicted cost with that of reading prompts, None if none was predicted.

        Prompts that were not predicted are taken in proportion to the cost, as in the application's other runs.
        """
        if run.predicted_cost is None:
            return None
        prompt = run.predicted_prompt
        if prompt is None:
            prompt = run.predicted_cost * self._prompt_per_kv.of(run.application)
        return run.predicted_cost + prompt_work * prompt

    def _revised(self, run: OpenRun) -> bool:
        expected = self._open[run.id]
        known = run.attained + expected.unadmitted
        expected.shown = max(expected.shown, known)
        if known <= expected.theta * expected.cost:
            return False
        expected.cost = max(known, expected.theta * run.attained)
        self._means.revised(run, expected.cost)
        return True
