"""How long a policy thinks: the time of one decision and of each event against the number of queued requests.

`python -m justitia_benchmarks.speed` (or `make benchmark`) measures every policy with 10 to 100,000 queued requests of
a tenth as many runs and a hundredth as many tenants (at least one); 32 more run, KV space and predictions are told.

One turn, repeated: the batch makes a step, which charges its tenants, advances virtual time and so makes stale what a
policy may have kept from its last answer; then, each timed on its own,

- decision: `head` and `admitted` of what it offered (the host's loop for one request that fits);
- finish: `finished` of a running request, with `run_ended` where it was its run's last;
- arrival: `request_arrived` of a request, with `run_arrived` where its run is new: the queue keeps its length;
- reweight: `set_weight` of a tenant.

The step is reported per running request. Covered is the CPU time of the policy's own thread, less that of reading its
clock: without the host's work, without other processes, and without garbage collection. Growth is the factor per
tenfold queue, from a straight line through the logarithms of the medians: 10 would be linear, 1 constant.
"""

import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import track

from justitia_benchmarks.document import write_table
from justitia_cli.console import errors, mistakes, output
from justitia_scheduling.cost import EngineTime, StepTime
from justitia_scheduling.model import ApplicationId, Progress, Request, RequestId, Run, RunId, Step, TenantId
from justitia_scheduling.policy import Policy
from justitia_scheduling.registry import POLICIES, build_policy

QUEUED = (10, 100, 1_000, 10_000, 100_000)
RUNNING = 32
REQUESTS_PER_RUN = 10
RUNS_PER_TENANT = 10
OPERATIONS = ("decision", "step", "arrival", "finish", "reweight")
STEP_TIME = StepTime(per_step=20e-3, per_token=0.2e-3, per_kv_token=2e-6)
KV_TOKENS = 100_000
PATH = Path("docs/results/speed.md")


@dataclass(frozen=True)
class Timing:
    """Microseconds of one operation of one policy at one length of the queue."""

    policy: str
    queued: int
    operation: str
    median: float
    p99: float


@dataclass
class Traffic:
    """A policy with a queue of constant length, and the times of what it was told and asked."""

    policy: Policy
    queued: int
    rng: random.Random
    now: float = 0.0
    made: int = 0
    times: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in OPERATIONS})

    def __post_init__(self) -> None:
        self.tenants = max(1, self.queued // REQUESTS_PER_RUN // RUNS_PER_TENANT)
        self.policy.set_capacity(KV_TOKENS, 0.0)
        for tenant in range(self.tenants):
            self.policy.set_weight(TenantId(f"t{tenant}"), float(1 + tenant % 4), 0.0)
        for _ in range(self.queued + RUNNING):
            self.arrive()
        for _ in range(RUNNING):
            self.admit()

    def turn(self) -> None:
        """A step, a decision, a departure, an arrival and a change of weight."""
        self.now += 0.02
        self.step()
        self.timed("decision", self.admit)
        leaving = self.rng.choice(list(self.policy.running))
        self.timed("finish", lambda: self.finish(leaving))
        self.timed("arrival", self.arrive)
        tenant, weight = TenantId(f"t{self.rng.randrange(self.tenants)}"), float(self.rng.randint(1, 4))
        self.timed("reweight", lambda: self.policy.set_weight(tenant, weight, self.now))

    def timed(self, name: str, operation: Callable[[], None]) -> None:
        start = time.thread_time_ns()
        operation()
        self.times[name].append(time.thread_time_ns() - start)

    def step(self) -> None:
        step = Step([Progress(r, produced=1) for r in self.policy.running], 0.02)
        start = time.thread_time_ns()
        self.policy.stepped(step, self.now)
        self.times["step"].append(time.thread_time_ns() - start)

    def admit(self) -> None:
        head = self.policy.head()
        if head is None:
            raise RuntimeError(f"{type(self.policy).__name__} offers nothing of {self.queued} queued requests")
        self.policy.admitted(head, self.now)

    def finish(self, request: RequestId) -> None:
        run = self.policy.requests[request].run
        self.policy.finished(request, self.now)
        if not run.requests:
            self.policy.run_ended(run.id, self.now)

    def arrive(self) -> None:
        number, self.made = self.made, self.made + 1
        run = RunId(f"r{number // REQUESTS_PER_RUN}")
        if run not in self.policy.runs:
            tenant, cost = number // REQUESTS_PER_RUN % self.tenants, 10 ** self.rng.uniform(4, 7)
            application = ApplicationId(f"a{number // REQUESTS_PER_RUN % 10}")
            self.policy.run_arrived(Run(run, TenantId(f"t{tenant}"), application, cost), self.now)
        outputs = float(self.rng.randint(10, 500))
        self.policy.request_arrived(
            Request(RequestId(f"q{number}"), run, self.rng.randint(50, 2000), outputs), self.now
        )


def measure(name: str, queued: int, turns: int, seed: int = 1) -> list[Timing]:
    """The operations of one policy at one length of the queue, after a tenth of the turns as warm-up."""
    traffic = Traffic(build_policy(name, EngineTime(STEP_TIME)), queued, random.Random(seed))
    clock = clock_cost()
    gc.collect()
    gc.disable()
    try:
        for _ in range(turns + turns // 10):
            traffic.turn()
    finally:
        gc.enable()
    timings = []
    for operation, times in traffic.times.items():
        median, p99 = (np.percentile(times[turns // 10 :], (50, 99)) - clock) / 1000
        share = RUNNING if operation == "step" else 1
        timings.append(Timing(name, queued, operation, float(median) / share, float(p99) / share))
    return timings


def clock_cost() -> float:
    """Nanoseconds that a measurement of nothing shows."""
    return float(np.median([-time.thread_time_ns() + time.thread_time_ns() for _ in range(1000)]))


def growth(timings: Sequence[Timing]) -> float:
    """Factor of the median per tenfold queue: a line through log(time) against log(queued)."""
    slope = np.polyfit([np.log10(t.queued) for t in timings], [np.log10(t.median) for t in timings], 1)[0]
    return float(10**slope)


def rows(timings: Sequence[Timing]) -> list[list[str]]:
    """Per policy and operation: median (P99) at each length of the queue, and the growth."""
    table = []
    for key in dict.fromkeys((t.policy, t.operation) for t in timings):
        own = sorted((t for t in timings if (t.policy, t.operation) == key), key=lambda t: t.queued)
        grows = f"× {growth(own):.2f}" if len(own) > 1 else "-"
        table.append([*key, *(f"{t.median:.1f} ({t.p99:.1f})" for t in own), grows])
    return table


def benchmark(
    policy: Annotated[list[str], typer.Option(help="Policy, repeatable; all unless given")] = [],  # noqa: B006
    turns: Annotated[int, typer.Option(min=100, help="Decisions measured at each length of the queue")] = 5000,
    largest: Annotated[int, typer.Option(min=10, help="Longest queue")] = QUEUED[-1],
    out: Annotated[Path, typer.Option(help="Markdown file for the table")] = PATH,
) -> None:
    """Measure how long each policy takes for a decision and for each event, in microseconds."""
    with mistakes():
        lengths = [n for n in QUEUED if n <= largest]
        for name in policy:
            build_policy(name, EngineTime(STEP_TIME))
        plan = [(name, n) for name in policy or POLICIES for n in lengths]
        timings = [
            t for name, n in track(plan, "measuring", console=errors, transient=True) for t in measure(name, n, turns)
        ]
        columns = ["policy", "operation", *(f"{n:,} queued" for n in lengths), "per tenfold"]
        write_table(out, columns, rows(timings))
    output.print(f"Median (P99) in microseconds, see {out}")
    for row in rows(timings):
        output.print("  ".join(f"{cell:16}" for cell in row), soft_wrap=True)


if __name__ == "__main__":
    typer.run(benchmark)
