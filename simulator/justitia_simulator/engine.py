"""A discrete-event simulation: a workload's runs on one or several engines, under any policy.

A run's stages follow each other: one becomes ready `delay` seconds after the last request of the one before; a run ends
with its last request. Each engine (:mod:`justitia_simulator.replica`) has a clock of its own. Which engine a ready
request goes to is the fleet's decision (:mod:`justitia_simulator.fleet`); the policies that had a request of a run hear
of it and of its end.

At one moment, steps end first, in the order of the engines; then stages become ready, in the order in which that was
known; then what the fleet has to do happens; then the watcher looks, if there is one and it is time; then the engines
decide. Nothing here is random: the same workload gives the same results to the last digit.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from justitia_scheduling.core.model import Run
from justitia_scheduling.core.policy import Policy
from justitia_simulator.contexts import Contexts
from justitia_simulator.fleet import Fleet, OnArrival
from justitia_simulator.inference import Inference
from justitia_simulator.prediction import MEAN, TRUE, PredictionSource, Told
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import FINISHED, PolicyResults, RequestResult, RunResult, ServiceSample, run_result
from justitia_simulator.replica import Replica
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import RequestId, Seconds, TenantId, Tokens

OnProgress = Callable[[int, int], None]


class DoesNotFitError(ValueError):
    """A request needs more KV than the engine has, so it could never be served."""


class StuckError(RuntimeError):
    """The policy offers nothing though requests wait and none runs: a bug in the policy."""


class Watcher(Protocol):
    """Stands beside the engines and sees what a sidecar sees. It may set the policies' knobs."""

    @property
    def period(self) -> Seconds:
        """The time between two looks."""
        ...

    def arrived(self, request: Inference, now: Seconds) -> None: ...

    def first_token(self, request: Inference, now: Seconds) -> None: ...

    def finished(self, request: Inference, now: Seconds) -> None: ...

    def run_finished(self, run: WorkloadRun, now: Seconds) -> None: ...

    def look(self, now: Seconds) -> None: ...


@dataclass(slots=True, eq=False)
class _Run:
    """A run of the workload. `open` requests of the current stage are not finished."""

    source: WorkloadRun
    announced: Run
    told: Told
    contexts: Contexts
    results: list[RequestResult] = field(default_factory=list)
    stage: int = 0
    open: int = 0
    made: int = 0


class Engine:
    """An engine with its policy, several behind one front, one for each policy, or a fleet. Serves one workload, once.

    Of policies it makes the fleet that binds requests when they arrive, `sticky` to the engine of their run's first
    one. `replicas` are the engines, in the order of the policies. `boosted` has applications whose requests are, with
    for how long.
    """

    def __init__(
        self,
        policy: Policy | Sequence[Policy] | Fleet,
        profile: EngineProfile,
        *,
        label: str,
        kv_tokens: Tokens | None = None,
        prediction: PredictionSource = MEAN,
        sample_every: Seconds = 1.0,
        sticky: bool = False,
        watcher: Watcher | None = None,
        boosted: Mapping[str, Seconds] | None = None,
    ) -> None:
        self._profile = profile
        self._label = label
        self._prediction = prediction
        self._sample_every = sample_every
        self._watcher = watcher
        self._boosted = boosted or {}
        self._next_look = watcher.period if watcher else math.inf
        if not isinstance(policy, Fleet):
            policies = [policy] if isinstance(policy, Policy) else policy
            policy = OnArrival(policies, profile, kv_tokens or profile.kv_tokens, sticky=sticky)
        self._fleet = policy
        self._capacity = policy.kv_tokens
        self.replicas = policy.replicas
        self._runs: dict[str, _Run] = {}
        self._tenants: list[TenantId] = []
        self._events: list[tuple[Seconds, int, _Run]] = []
        self._sequence = 0
        self._samples: list[ServiceSample] = []
        self._next_sample: Seconds = sample_every
        self._finished = 0

    def serve(
        self,
        workload: Sequence[WorkloadRun],
        weights: Mapping[str, float] | None = None,
        on_progress: OnProgress | None = None,
    ) -> PolicyResults:
        """Serve all runs to their end. Raises DoesNotFitError before anything is served, StuckError."""
        total = self._check(workload)
        self._fleet.begin({TenantId(tenant): weight for tenant, weight in (weights or {}).items()})
        self._open(workload)
        while (moment := self._next_moment()) is not None:
            self._sample_until(moment)
            self._pass(moment)
            if on_progress:
                on_progress(self._finished, total)
        if self._finished < total:
            waiting = sum(len(line.waiting) for line in self._fleet.lines)
            raise StuckError(f"{self._label}: {waiting} requests wait, none runs, none is offered")
        return self._results(weights or {})

    def _check(self, workload: Sequence[WorkloadRun]) -> int:
        size = self._profile.block_size
        requests = 0
        for run in workload:
            for work in run.requests:
                requests += 1
                need = -(-(work.prompt_tokens + work.output_tokens) // size) * size
                if need > self._capacity // size * size:
                    raise DoesNotFitError(
                        f"a request of run {run.id!r} needs {need} tokens of KV and the engine has {self._capacity}: "
                        "give it more (--kv-tokens) or shorten the request"
                    )
        return requests

    def _open(self, workload: Sequence[WorkloadRun]) -> None:
        oracle = any(line.policy.oracle for line in self._fleet.lines)
        told = (TRUE if oracle else self._prediction).tell(workload)
        for source in workload:
            of_run = told[source.id]
            announced = Run(
                source.id, source.tenant, source.application, of_run.cost, of_run.prompt_tokens, of_run.output_tokens
            )
            run = self._runs[source.id] = _Run(source, announced, of_run, Contexts(source.id))
            self._push(source.arrival, run)
        self._tenants = list(dict.fromkeys(source.tenant for source in workload))

    def _push(self, moment: Seconds, run: _Run) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (moment + run.source.stages[run.stage].delay, self._sequence, run))

    def _next_moment(self) -> Seconds | None:
        moments = [r.end for r in self.replicas if r.end is not None]
        if self._events:
            moments.append(self._events[0][0])
        if (arrives := self._fleet.arrives()) is not None:
            moments.append(arrives)
        return min(*moments, self._fleet.next_exchange, self._next_look) if moments else None

    def _pass(self, moment: Seconds) -> None:
        """Everything that happens at that moment."""
        self._fleet.time_passed(moment)
        for replica in self.replicas:
            if replica.busy and replica.end == moment:
                done = replica.complete()
                if self._watcher:
                    for request in replica.began:
                        self._watcher.first_token(request, moment)
                for request in done:
                    self._finish(replica, request, moment)
        while self._events and self._events[0][0] <= moment:
            ready, _, run = heapq.heappop(self._events)
            self._submit_stage(run, ready)
        self._fleet.happen(moment)
        if self._watcher and self._next_look <= moment:
            self._watcher.look(moment)
            self._next_look += self._watcher.period
        until = min(self._next_sample, self._fleet.next_exchange)
        for replica in self.replicas:
            if replica.end is not None and replica.end <= moment and not replica.busy:
                replica.decide(moment, until)
        for replica in self._fleet.woken(moment):
            replica.decide(moment, until)

    def _submit_stage(self, run: _Run, ready: Seconds) -> None:
        source = run.source
        requests = source.stages[run.stage].requests
        for work, origin in zip(requests, run.contexts.follow(requests), strict=True):
            request = Inference(
                RequestId(f"{source.id}#{run.made}"),
                run.announced,
                work,
                run.told.outputs[run.made],
                ready,
                origin,
                self._boosted.get(source.application),
            )
            run.made += 1
            run.open += 1
            self._fleet.submit(request, ready)
            if self._watcher:
                self._watcher.arrived(request, ready)

    def _finish(self, replica: Replica, request: Inference, moment: Seconds) -> None:
        run = self._runs[request.run.id]
        self._fleet.finished(replica, request, moment)
        self._finished += 1
        if self._watcher:
            self._watcher.finished(request, moment)
        run.results.append(self._request_result(run, request, moment))
        run.open -= 1
        if run.open:
            return
        run.stage += 1
        if run.stage < len(run.source.stages):
            self._push(moment, run)
        else:
            self._fleet.run_ended(run.source.id, moment)
            if self._watcher:
                self._watcher.run_finished(run.source, moment)

    def _request_result(self, run: _Run, request: Inference, moment: Seconds) -> RequestResult:
        return RequestResult(
            policy=self._label,
            run=run.source.id,
            tenant=run.source.tenant,
            application=run.source.application,
            stage=run.stage,
            arrival=run.source.arrival,
            ready=request.ready,
            admitted=request.admitted,
            first_token=request.first_token,
            finished=moment,
            prompt_tokens=request.work.prompt_tokens,
            output_tokens=request.work.output_tokens,
            preemptions=request.preemptions,
            status=FINISHED,
            cached_tokens=request.cached,
        )

    def _sample_until(self, moment: Seconds) -> None:
        while self._next_sample <= moment:
            self._sample(self._next_sample)
            self._next_sample += self._sample_every

    def _sample(self, moment: Seconds) -> None:
        running = Counter([r.run.tenant for replica in self.replicas for r in replica.running.values()])
        for tenant in self._tenants:
            service = self._fleet.service(tenant)
            queued = self._fleet.queued(tenant)
            self._samples.append(ServiceSample(self._label, moment, tenant, service, queued, running[tenant]))

    def _results(self, weights: Mapping[str, float]) -> PolicyResults:
        opened = list(self._runs.values())
        if opened:
            self._sample(max(r.finished or 0.0 for run in opened for r in run.results))
        runs: list[RunResult] = [run_result(r.results, len(r.source.requests)) for r in opened]
        return PolicyResults(
            self._label,
            [result for run in opened for result in run.results],
            runs,
            self._samples,
            dict(weights),
            self._fleet.lines[0].policy.cost_model.unit,
            {
                "source": "simulation",
                "engine": self._profile.name,
                "engines": len(self.replicas),
                "token_budget": self._profile.token_budget or 0,
                "kv_tokens": self._capacity,
                "prediction": self._prediction.name,
            },
        )
