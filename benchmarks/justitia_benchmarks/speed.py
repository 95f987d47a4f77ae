"""How long a policy thinks: the CPU time of one decision and of each event against the number of queued requests.

`python -m justitia_benchmarks.speed` (or `make benchmark`) measures every policy with 10 to 100,000 queued requests of
a tenth as many runs and a hundredth as many tenants, of whom there are at least 32; KV space and predictions are told.
32 more requests run, of 32 different tenants.

A *decision* is `head()`, asked after something changed since its last answer and timed by itself. What an event leaves
for the next answer to put right is therefore in the decision, not in the event. One turn, repeated, is

1. step: `stepped`, one token for each running request, so that 32 tenants are charged; reported per request;
2. decision after a step: `head`, after that step and the arrival, departure and change of weight of the turn before;
3. admission: `admitted` of what it offered;
4. decision after an admission: `head` again;
5. finish: `finished` of a running request: of the tenant that was admitted if it has another one, else any;
   run end: `run_ended` if nothing of its run is left;
6. run arrival: `run_arrived` if the next request is the first of its run;
   arrival: `request_arrived`, which brings the queue back to its length;
7. reweight: `set_weight` of any tenant.

Unit: microseconds of the measuring thread's CPU time (`time.thread_time_ns`), so that other processes' turns do not
count; a timing's own cost, the median of timing nothing after each turn, is subtracted. It scatters by some 0.1 us, and
each operation is timed once, on caches that the others have used. Garbage collection, the host's work and `time_passed`
are left out. Lengths are measured in rotation, so that a machine whose speed drifts does not look like growth. Each
seed draws its own traffic and has its own median and 99th percentile; shown is the middle one of the seeds. Growth is
the factor per tenfold queue, from a straight line through the logarithms of a seed's medians: 10 would be linear, 1
constant. A policy that prefers short requests may finish no run of a long queue: a dash.
"""

import gc
import os
import platform
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from statistics import mean, median
from typing import Annotated

import msgspec
import numpy as np
import typer
from rich.progress import track

from justitia_benchmarks.document import table
from justitia_cli.console import errors, mistakes, output
from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import EngineTime, StepTime
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_simulator.files import write_bytes
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

QUEUED = (10, 100, 1_000, 10_000, 100_000)
RUNNING = 32
REQUESTS_PER_RUN = 10
REQUESTS_PER_TENANT = 100
STEP_TIME = StepTime(per_step=20e-3, per_token=0.2e-3, per_kv_token=2e-6)
STEP_SECONDS = 0.02
KV_TOKENS = 100_000
ROTATION = 50
"""Turns with one length of the queue before the next one's: what the machine does meanwhile, it does to all of them."""
LEAST_MEDIAN = 0.01
"""Microseconds: what a median counts for at least, where the clock's cost exceeds the operation's."""


class Operation(Enum):
    """What is timed, as the tables name it."""

    AFTER_STEP = "decision after a step"
    AFTER_ADMISSION = "decision after an admission"
    ADMISSION = "admission"
    STEP = "step, per running request"
    ARRIVAL = "arrival"
    RUN_ARRIVAL = "run arrival"
    FINISH = "finish"
    RUN_END = "run end"
    REWEIGHT = "reweight"


@dataclass(frozen=True)
class OperationTiming:
    """Microseconds of one operation of one policy at one length of the queue, in the traffic of one seed."""

    policy: str
    queued: int
    operation: Operation
    seed: int
    median: float
    p99: float


class Traffic:
    """A policy with a queue of constant length, and the times of what it was told and asked, in nanoseconds."""

    def __init__(self, policy: Policy, queued: int, rng: random.Random) -> None:
        self.policy = policy
        self.tenants = max(RUNNING, queued // REQUESTS_PER_TENANT)
        self.times: dict[Operation, list[int]] = {operation: [] for operation in Operation}
        self._rng = rng
        self._now = 0.0
        self._runs = 0
        self._requests = 0
        self._run = RunId("")
        self._to_come = 0
        self._head: RequestId | None = None
        policy.set_capacity(KV_TOKENS, 0.0)
        for tenant in range(self.tenants):
            policy.set_weight(TenantId(f"t{tenant}"), float(1 + tenant % 4), 0.0)
        for _ in range(RUNNING):
            self._arrive()
            self._to_come = 0
            self._ask()
            self._admit()
        for _ in range(queued):
            self._arrive()

    def turn(self) -> None:
        """The sequence that the module describes."""
        self._pass_time(STEP_SECONDS)
        step = Step([Progress(r, produced=1) for r in self.policy.running], STEP_SECONDS)
        self._time(Operation.STEP, lambda: self.policy.stepped(step, self._now))
        self._time(Operation.AFTER_STEP, self._ask)
        if self._head is None and (until := self.policy.held_until()) is not None:
            self._pass_time(until - self._now)
            self._ask()
        admitted = self._admit()
        self._time(Operation.AFTER_ADMISSION, self._ask)
        self._finish_for(admitted)
        self._arrive()
        tenant, weight = TenantId(f"t{self._rng.randrange(self.tenants)}"), float(self._rng.randint(1, 4))
        self._time(Operation.REWEIGHT, lambda: self.policy.set_weight(tenant, weight, self._now))

    def _time(self, operation: Operation, call: Callable[[], object]) -> None:
        self.times[operation].append(timed(call))

    def _pass_time(self, seconds: float) -> None:
        self._now += seconds
        self.policy.time_passed(self._now)

    def _ask(self) -> None:
        self._head = self.policy.head()

    def _admit(self) -> OpenRequest:
        head = self._head
        if head is None:
            raise RuntimeError(f"{type(self.policy).__name__} offers nothing of {len(self.policy.requests)} requests")
        self._time(Operation.ADMISSION, lambda: self.policy.admitted(head, self._now))
        return self.policy.requests[head]

    def _finish_for(self, admitted: OpenRequest) -> None:
        """One of the others finishes, of the same tenant if there is one: tenants in the batch stay different."""
        others = [r for r in self.policy.running.values() if r is not admitted]
        leaving = self._rng.choice([r for r in others if r.tenant == admitted.tenant] or others)
        self._time(Operation.FINISH, lambda: self.policy.finished(leaving.id, self._now))
        if not leaving.run.requests:
            self._time(Operation.RUN_END, lambda: self.policy.run_ended(leaving.run.id, self._now))

    def _arrive(self) -> None:
        """The next request of the youngest run, or the first of another if that has had all of its own or is over."""
        if not self._to_come or self._run not in self.policy.runs:
            self._run, self._to_come = RunId(f"r{self._runs}"), REQUESTS_PER_RUN
            tenant, application = TenantId(f"t{self._runs % self.tenants}"), ApplicationId(f"a{self._runs % 10}")
            run = Run(self._run, tenant, application, 10 ** self._rng.uniform(4, 7))
            self._runs += 1
            self._time(Operation.RUN_ARRIVAL, lambda: self.policy.run_arrived(run, self._now))
        number, outputs = RequestId(f"q{self._requests}"), float(self._rng.randint(10, 500))
        request = Request(number, self._run, self._rng.randint(50, 2000), outputs)
        self._requests += 1
        self._to_come -= 1
        self._time(Operation.ARRIVAL, lambda: self.policy.request_arrived(request, self._now))


def measure(name: str, lengths: Sequence[int], turns: int, seed: int) -> list[OperationTiming]:
    """The operations of one policy, after a tenth of the turns as warm-up, with queues of these lengths in rotation."""
    gc.disable()
    try:
        traffics = [Traffic(build_policy(name, EngineTime(STEP_TIME)), n, random.Random(seed)) for n in lengths]
        for traffic in traffics:
            for _ in range(turns // 10):
                traffic.turn()
            traffic.times = {operation: [] for operation in Operation}
        clock: list[int] = []
        for done in range(0, turns, ROTATION):
            for traffic in traffics:
                for _ in range(min(ROTATION, turns - done)):
                    traffic.turn()
                    clock.append(timed(lambda: None))
    finally:
        gc.enable()
    cost = median(clock)
    timings = []
    for queued, traffic in zip(lengths, traffics, strict=True):
        for operation, times in traffic.times.items():
            if not times:
                continue
            middle, p99 = (np.percentile(times, (50, 99)) - cost) / 1000
            share = RUNNING if operation is Operation.STEP else 1
            timings.append(OperationTiming(name, queued, operation, seed, float(middle) / share, float(p99) / share))
    return timings


def timed(call: Callable[[], object]) -> int:
    """Nanoseconds of this thread's CPU time, reading them included."""
    start = time.thread_time_ns()
    call()
    return time.thread_time_ns() - start


def growth(timings: Sequence[OperationTiming]) -> float:
    """Factor of the median per tenfold queue: a line through log(time) against log(queued)."""
    medians = [max(t.median, LEAST_MEDIAN) for t in timings]
    slope = np.polyfit(np.log10([t.queued for t in timings]), np.log10(medians), 1)[0]
    return float(10**slope)


def rows(timings: Sequence[OperationTiming]) -> list[list[str]]:
    """A table of one operation by policy: median (P99) at each length of the queue, and the growth (least-most of
    seeds).
    """
    lengths = sorted({t.queued for t in timings})
    found = []
    for policy in dict.fromkeys(t.policy for t in timings):
        own = [t for t in timings if t.policy == policy]
        cells = [_cell([t for t in own if t.queued == n]) for n in lengths]
        seeds = [[t for t in own if t.seed == seed] for seed in sorted({t.seed for t in own})]
        factors = [growth(of_seed) for of_seed in seeds if len(of_seed) > 1]
        grows = f"× {mean(factors):.2f} ({min(factors):.2f}-{max(factors):.2f})" if factors else "-"
        found.append([policy, *cells, grows])
    return found


def _cell(timings: Sequence[OperationTiming]) -> str:
    """The cell of one policy and length of queue; a dash if the operation never happened."""
    if not timings:
        return "-"
    return f"{median(t.median for t in timings):.1f} ({median(t.p99 for t in timings):.1f})"


def document(timings: Sequence[OperationTiming], turns: int, machine: str) -> str:
    """The tables, one for each operation, in Markdown."""
    lengths = sorted({t.queued for t in timings})
    columns = ["policy", *(f"{n:,} queued" for n in lengths), "per tenfold"]
    seeds = len({t.seed for t in timings})
    parts = [
        "# Time of a decision",
        "Written by `make benchmark`; `benchmarks/justitia_benchmarks/speed.py` says what each operation is. Median "
        f"(P99) in microseconds of CPU time over {turns:,} turns of each of {seeds} seeds, {RUNNING} requests running, "
        "and the factor per tenfold queue with its range over the seeds.",
        machine,
    ]
    for operation in Operation:
        parts += [
            f"## {operation.value[0].upper()}{operation.value[1:]}",
            table(columns, rows([t for t in timings if t.operation is operation])),
        ]
    return "\n\n".join(parts) + "\n"


def machine() -> str:
    """The processor, the interpreter, and how many others wanted the processor meanwhile."""
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", cpuinfo.read_text(encoding="utf-8")) if cpuinfo.exists() else []
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return (
        f"{models[0] if models else platform.machine()}, {os.cpu_count()} processors, "
        f"Python {platform.python_version()}; load averages at the end {load}."
    )


def publish(text: str, out: Path | None, instead: str | None = None) -> None:
    """Write the document to `out` if that is given, and print it, or `instead` of it something else."""
    if out is not None:
        write_bytes(out, text.encode())
    output.print(text if instead is None else instead, markup=False, highlight=False, soft_wrap=True, end="")


def benchmark(
    *,
    policy: Annotated[list[str], typer.Option(help="Policy, repeatable; all unless given")] = [],  # noqa: B006
    turns: Annotated[
        int, typer.Option(min=100, help="Decisions measured for each length of the queue and seed")
    ] = 2000,
    seeds: Annotated[int, typer.Option(min=1, help="How often each is measured, with other traffic")] = 3,
    largest: Annotated[int, typer.Option(min=10, help="Longest queue")] = QUEUED[-1],
    out: Annotated[
        Path | None, typer.Option(help="Markdown file for the tables, such as docs/results/speed.md")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the timings as JSON in place of the tables")] = False,
) -> None:
    """Measure how long each policy takes for a decision and for each event, in microseconds."""
    with mistakes():
        for name in policy:
            build_policy(name, EngineTime(STEP_TIME))
        names = policy or list(POLICIES)
        lengths = [n for n in QUEUED if n <= largest]
        plan = [(name, seed) for seed in range(1, seeds + 1) for name in names]
        timings = [
            timing
            for name, seed in track(plan, "measuring", console=errors, transient=True)
            for timing in measure(name, lengths, turns, seed)
        ]
        publish(document(timings, turns, machine()), out, msgspec.json.encode(timings).decode() if as_json else None)


if __name__ == "__main__":
    typer.run(benchmark)
