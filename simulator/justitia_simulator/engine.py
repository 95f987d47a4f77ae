"""A discrete-event engine: continuous batching, step by step, under any policy.

The loop is that of the engine that was measured (see :mod:`justitia_simulator.profiles`):

1. What has become ready by `now` is told to the policy. With nothing to do, time moves to the next such moment.
2. Every `decode_steps_per_admission` decode steps, and when nothing runs, the policy's head is admitted while it fits,
   by the profile's rule of :mod:`justitia_simulator.occupancy`, which knows true lengths, so nothing is preempted.
   The head that does not fit blocks.
3. Those admitted are prefilled in one step of their own, which yields each one's first token; else all running
   requests decode one token a step. A request leaves, with its KV, at the end of the step of its last token.

A stage becomes ready `delay` seconds after the last request of the one before; a run ends with its last request.
The policy hears each prefill, and the decode steps between two decisions or departures as one chunk: nothing could be
decided inside it. Each comes with its duration, so that charges in engine time sum to the time the engine was busy.
Nothing here is random: the same workload gives the same results to the last digit.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from justitia_scheduling.model import Progress, Request, RequestId, Run, Seconds, Step, TenantId, Tokens
from justitia_scheduling.policy import Policy
from justitia_simulator.prediction import MEAN, TRUE, Prediction, Told
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import FINISHED, PolicyResults, RequestResult, RunResult, ServiceSample, run_result
from justitia_simulator.workload import WorkloadRequest, WorkloadRun

OnProgress = Callable[[int, int], None]


class DoesNotFitError(ValueError):
    """A request needs more KV than the engine has, so it could never be served."""


class StuckError(RuntimeError):
    """The policy offers nothing though requests wait and none runs: a bug in the policy."""


@dataclass(slots=True, eq=False)
class _Request:
    """A ready request. `remaining` output tokens are to come."""

    id: RequestId
    run: "_Run"
    work: WorkloadRequest
    ready: Seconds
    remaining: Tokens
    admitted: Seconds = -1.0
    first_token: Seconds = -1.0

    @property
    def held(self) -> Tokens:
        """KV tokens, once it has been prefilled."""
        return self.work.prompt_tokens + self.work.output_tokens - self.remaining


@dataclass(slots=True, eq=False)
class _Run:
    """A run that has arrived. `open` requests of the current stage are not finished."""

    run: WorkloadRun
    told: Told
    results: list[RequestResult]
    stage: int = 0
    open: int = 0
    made: int = 0


@dataclass(slots=True)
class _Load:
    queued: int = 0
    running: int = 0


class Engine:
    """One engine with one policy. :meth:`serve` serves a workload once."""

    def __init__(
        self,
        policy: Policy,
        profile: EngineProfile,
        *,
        label: str,
        kv_tokens: Tokens | None = None,
        prediction: Prediction = MEAN,
        sample_every: Seconds = 1.0,
    ) -> None:
        self._policy = policy
        self._profile = profile
        self._label = label
        self._capacity = kv_tokens or profile.kv_tokens
        self._prediction = prediction
        self._sample_every = sample_every
        self._now: Seconds = 0.0
        self._requests: dict[RequestId, _Request] = {}
        self._running: list[_Request] = []
        self._kv_read: Tokens = 0
        self._events: list[tuple[Seconds, int, _Run]] = []
        self._sequence = 0
        self._load: dict[TenantId, _Load] = {}
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
        self._policy.set_capacity(self._capacity, 0.0)
        for tenant, weight in (weights or {}).items():
            self._policy.set_weight(TenantId(tenant), weight, 0.0)
        told = (TRUE if self._policy.oracle else self._prediction).tell(workload)
        opened = [_Run(run, told[run.id], []) for run in workload]
        for run in opened:
            self._load.setdefault(run.run.tenant, _Load())
            self._push(run.run.arrival, run)
        steps_to_admission = 0
        while self._events or self._requests:
            self._tell_ready()
            if steps_to_admission == 0 or not self._running:
                steps_to_admission = self._profile.decode_steps_per_admission
                if admitted := self._admit():
                    self._prefill(admitted)
                    continue
            if self._running:
                steps_to_admission -= self._decode(steps_to_admission)
            elif self._events:
                self._advance(self._events[0][0])
            else:
                raise StuckError(f"{self._label}: {len(self._requests)} requests wait, none runs, none is offered")
            if on_progress:
                on_progress(self._finished, total)
        self._sample(self._now)
        return self._results(opened, weights or {})

    def _check(self, workload: Sequence[WorkloadRun]) -> int:
        requests = 0
        for run in workload:
            for work in run.requests:
                requests += 1
                if (need := work.prompt_tokens + work.output_tokens) > self._capacity:
                    raise DoesNotFitError(
                        f"a request of run {run.id!r} needs {need} tokens of KV and the engine has {self._capacity}: "
                        "give it more (--kv-tokens) or shorten the request"
                    )
        return requests

    def _push(self, moment: Seconds, run: _Run) -> None:
        stage = run.run.stages[run.stage]
        self._sequence += 1
        heapq.heappush(self._events, (moment + stage.delay, self._sequence, run))

    def _advance(self, moment: Seconds) -> None:
        """Time passes; samples fall due on the way."""
        while self._next_sample <= moment:
            self._sample(self._next_sample)
            self._next_sample += self._sample_every
        self._now = moment

    def _tell_ready(self) -> None:
        while self._events and self._events[0][0] <= self._now:
            ready, _, run = heapq.heappop(self._events)
            if run.stage == 0:
                source = run.run
                told = run.told
                announced = Run(source.id, source.tenant, source.application, told.cost, told.compute)
                self._policy.run_arrived(announced, self._now)
            for work in run.run.stages[run.stage].requests:
                request = _Request(RequestId(f"{run.run.id}#{run.made}"), run, work, ready, work.output_tokens)
                predicted = run.told.outputs[run.made]
                run.made += 1
                run.open += 1
                self._requests[request.id] = request
                self._load[run.run.tenant].queued += 1
                self._policy.request_arrived(Request(request.id, run.run.id, work.prompt_tokens, predicted), self._now)

    def _admit(self) -> list[_Request]:
        need = self._profile.admission.need
        batch = [(r.held, r.remaining) for r in self._running]
        admitted: list[_Request] = []
        while (head := self._policy.head()) is not None:
            request = self._requests[head]
            batch.append((request.work.prompt_tokens + 1, request.remaining - 1))
            if need(batch) > self._capacity:
                break
            self._policy.admitted(head, self._now)
            request.admitted = self._now
            load = self._load[request.run.run.tenant]
            load.queued -= 1
            load.running += 1
            admitted.append(request)
        return admitted

    def _prefill(self, admitted: list[_Request]) -> None:
        duration = self._profile.prefill_time(sum(r.work.prompt_tokens for r in admitted))
        self._advance(self._now + duration)
        progress = [Progress(r.id, prefilled=r.work.prompt_tokens, produced=1) for r in admitted]
        self._policy.stepped(Step(progress, duration), self._now)
        for request in admitted:
            request.first_token = self._now
            request.remaining -= 1
            self._kv_read += request.work.prompt_tokens + 1
        self._running += admitted
        self._retire()

    def _decode(self, at_most: int) -> int:
        """Decode until a request finishes, at most that many steps; returns how many."""
        running = self._running
        steps = min(at_most, *(r.remaining for r in running))
        duration = self._profile.decode_time(len(running), self._kv_read, steps)
        self._advance(self._now + duration)
        self._policy.stepped(Step([Progress(r.id, produced=steps) for r in running], duration), self._now)
        self._kv_read += len(running) * steps
        for request in running:
            request.remaining -= steps
        self._retire()
        return steps

    def _retire(self) -> None:
        done = [r for r in self._running if r.remaining == 0]
        if not done:
            return
        self._running = [r for r in self._running if r.remaining]
        for request in done:
            self._finish(request)

    def _finish(self, request: _Request) -> None:
        run = request.run
        self._policy.finished(request.id, self._now)
        del self._requests[request.id]
        self._kv_read -= request.held
        self._load[run.run.tenant].running -= 1
        self._finished += 1
        run.results.append(self._request_result(request))
        run.open -= 1
        if run.open:
            return
        run.stage += 1
        if run.stage < len(run.run.stages):
            self._push(self._now, run)
        else:
            self._policy.run_ended(run.run.id, self._now)

    def _request_result(self, request: _Request) -> RequestResult:
        run = request.run.run
        return RequestResult(
            policy=self._label,
            run=run.id,
            tenant=run.tenant,
            application=run.application,
            stage=request.run.stage,
            arrival=run.arrival,
            ready=request.ready,
            admitted=request.admitted,
            first_token=request.first_token,
            finished=self._now,
            prompt_tokens=request.work.prompt_tokens,
            output_tokens=request.work.output_tokens,
            preemptions=0,
            status=FINISHED,
        )

    def _sample(self, moment: Seconds) -> None:
        for tenant, load in self._load.items():
            service = self._policy.service.get(tenant, 0.0)
            self._samples.append(ServiceSample(self._label, moment, tenant, service, load.queued, load.running))

    def _results(self, opened: Sequence[_Run], weights: Mapping[str, float]) -> PolicyResults:
        runs: list[RunResult] = [run_result(r.results, len(r.run.requests)) for r in opened]
        return PolicyResults(
            self._label,
            [result for run in opened for result in run.results],
            runs,
            self._samples,
            dict(weights),
            self._policy.cost_model.unit,
            {
                "source": "simulation",
                "engine": self._profile.name,
                "kv_tokens": self._capacity,
                "prediction": self._prediction.name,
            },
        )
