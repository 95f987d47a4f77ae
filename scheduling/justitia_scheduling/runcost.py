"""What a run is expected to cost: from what is told of it, and from what it shows. `tiered.py` keys runs by it.

A run's cost is what it takes from the engine, in KV token-time: C for holding KV while it decodes, and for each prompt
token `rho = c_tok / (c0/M + c_kv)`, what a full engine would have delivered while it read the token (`prompt_work` in
`cost.py`; 0 where step times are not known). C alone calls a run of long prompts and short answers cheap.

The estimate E begins with what was told, as far as that has come true for the application, else with the application's
censored mean (`estimate.py` has both). What the run shows:

    known = attained + sum of (p d + d^2 / 2 + rho p) over its requests that have not been admitted yet

p the request's prompt, d the mean output of its application's finished requests (of the pool's while it has none, one
token before any): measured, nobody's claim. As soon as `known > theta * E`,

    E <- max(known, theta * attained)

So attained <= theta * E always, E grows by more than theta each time, and there are fewer than
`1 + log(K / E_0) / log(theta)` revisions, K the largest that is ever known. A large run is recognised when its first
wide stage arrives, not after it has been served for long.
"""

from dataclasses import dataclass

from justitia_scheduling.estimate import CensoredMean, Ratio, TrackRecord
from justitia_scheduling.model import KVTokenTime, RequestId, Run, RunId, kv_token_time
from justitia_scheduling.policy import OpenRequest, OpenRun


@dataclass(slots=True)
class _Expected:
    """Of an open run: E, the theta at which it is revised, and the cost of its requests not admitted yet; what was told
    of it, and its application's mean when it arrived.
    """

    cost: KVTokenTime
    theta: float
    told: KVTokenTime | None
    mean: KVTokenTime | None
    unadmitted: KVTokenTime = 0.0


class RunCosts:
    """Estimates of the open runs' costs, revised at `theta` if told, else at `theta_learned`. Operations are O(1)."""

    def __init__(self, theta: float, theta_learned: float) -> None:
        self._theta, self._theta_learned = theta, theta_learned
        self._means = CensoredMean()
        self._record = TrackRecord()
        self._outputs = Ratio()
        self._prompt_per_kv = Ratio()
        self._open: dict[RunId, _Expected] = {}
        self._requests: dict[RequestId, KVTokenTime] = {}

    def __getitem__(self, run: RunId) -> KVTokenTime:
        """E of an open run."""
        return self._open[run].cost

    def opened(self, run: OpenRun, prompt_work: KVTokenTime) -> None:
        """The run has arrived; `prompt_work` is rho."""
        application = run.run.application
        told, mean = self._told(run.run, prompt_work), self._means.of(application)
        if told is None:
            cost, theta = self._means.estimate(application), self._theta_learned
        else:
            cost, theta = told if mean is None else self._record.expected(application, told, mean), self._theta
        self._open[run.id] = _Expected(cost, theta, told, mean)

    def asked(self, request: OpenRequest, prompt_work: KVTokenTime) -> bool:
        """A request of the run has arrived. True if that changed the run's estimate."""
        p, d = request.request.prompt_tokens, max(1.0, self._outputs.of(request.run.run.application))
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
        if expected.told is not None and expected.mean is not None and run.attained and not run.aborted:
            self._record.finished(run.run.application, expected.told, expected.mean, run.attained)
        self._means.ended(run)

    def _told(self, run: Run, prompt_work: KVTokenTime) -> KVTokenTime | None:
        """Prompts that were not told are taken in proportion to the cost, as in the application's other runs."""
        if run.predicted_cost is None:
            return None
        prompt = run.predicted_prompt
        if prompt is None:
            prompt = run.predicted_cost * self._prompt_per_kv.of(run.application)
        return run.predicted_cost + prompt_work * prompt

    def _revised(self, run: OpenRun) -> bool:
        expected = self._open[run.id]
        known = run.attained + expected.unadmitted
        if known <= expected.theta * expected.cost:
            return False
        expected.cost = max(known, expected.theta * run.attained)
        self._means.revised(run, expected.cost)
        return True
