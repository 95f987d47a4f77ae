"""The workloads of the VTC paper (section 5.2): who asks how often, and for how much.

Clients are numbered from 1, as in its figures. Evenly spaced arrivals start at a phase that the seed draws, as the
authors' do; only the two with short and long requests are Poisson processes.
"""

import csv
import gzip
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from justitia_scheduling.model import ApplicationId, RunId, Seconds, TenantId, Tokens
from justitia_simulator.workload import Stage, WorkloadRequest, WorkloadRun

REAL_TRACE = Path(__file__).parents[3] / "tests/data/vtc-a10g/real.csv.gz"
"""LMSYS Chatbot Arena's, as the authors sampled it: 27 clients, 1,500 requests in 600 s."""

LARGEST_SHIFT: Seconds = 60.0

Arrivals = Callable[[random.Random], Iterator[Seconds]]


@dataclass(frozen=True)
class Client:
    """One client: when its requests come, and how long they are."""

    arrivals: Arrivals
    prompt: Tokens = 256
    output: Tokens = 256


def evenly(rate: float, start: Seconds = 0.0, end: Seconds = 600.0, on_off: Seconds | None = None) -> Arrivals:
    """`rate` a second; with `on_off` in phases of that length, of which every other one is silent."""

    def arrivals(rng: random.Random) -> Iterator[Seconds]:
        first = start + rng.random() / rate
        for i in range(round((end - start) * rate)):
            moment = first + i / rate
            if on_off is None or int(moment // on_off) % 2 == 0:
                yield moment

    return arrivals


def increasing(first: float, last: float, end: Seconds = 600.0) -> Arrivals:
    """From `first` a second to `last`, linearly: the i-th request comes when the integral of the rate is i."""

    def arrivals(rng: random.Random) -> Iterator[Seconds]:
        slope = (last - first) / end
        phase = rng.random()
        for i in range(int((first + last) / 2 * end)):
            yield (math.sqrt(first * first + 2 * slope * (i + phase)) - first) / slope

    return arrivals


def poisson(rate: float, end: Seconds) -> Arrivals:
    def arrivals(rng: random.Random) -> Iterator[Seconds]:
        moment = rng.expovariate(rate)
        while moment < end:
            yield moment
            moment += rng.expovariate(rate)

    return arrivals


def one_after_the_other(*parts: Arrivals) -> Arrivals:
    return lambda rng: (moment for part in parts for moment in part(rng))


def constant(*rates: float, end: Seconds = 600.0, length: Tokens = 256) -> tuple[Client, ...]:
    return tuple(Client(evenly(rate, end=end), length, length) for rate in rates)


# Those that overload the engine by far are cut short: what queues up by the end has to be served too.
WORKLOADS: dict[str, tuple[Client, ...]] = {
    "overload": constant(1.5, 3.0, end=360.0),
    "overload-8": constant(0.4, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6, end=360.0),
    "overload-weighted": constant(0.8, 0.8, 1.2, 1.6, end=360.0),
    "proportional": constant(0.25, 0.5, 1.5),
    "on-off-less": (Client(evenly(0.5, on_off=60.0)), Client(evenly(2.0))),
    "on-off-overload": (Client(evenly(2.0, on_off=60.0)), Client(evenly(3.0))),
    "increase": (Client(evenly(0.5)), Client(increasing(0.2, 2.0))),
    "short-and-long": (Client(poisson(8.0, 300.0), 64, 64), Client(poisson(1.5, 300.0))),
    "long-outputs-and-long-prompts": (Client(poisson(8.0, 150.0), 64, 512), Client(poisson(1.5, 150.0), 512, 64)),
    "shift": (
        Client(one_after_the_other(evenly(0.5, 0, 300, on_off=60.0), evenly(1.0, 300, 600), evenly(0.5, 600, 900))),
        Client(one_after_the_other(evenly(2.0, 0, 300), evenly(1.0, 300, 600), evenly(1.5, 600, 900))),
    ),
}


def generate(clients: tuple[Client, ...], seed: int) -> list[WorkloadRun]:
    """The requests of these clients, each a run of its own, in order of arrival."""
    drawn = [
        (moment, str(number), client)
        for number, client in enumerate(clients, 1)
        for moment in client.arrivals(random.Random(f"{seed}/{number}"))
    ]
    return [
        single_request(f"r{i}", name, moment, client.prompt, client.output)
        for i, (moment, name, client) in enumerate(sorted(drawn, key=lambda d: d[:2]))
    ]


def single_request(run: str, client: str, arrival: Seconds, prompt: Tokens, output: Tokens) -> WorkloadRun:
    stage = Stage((WorkloadRequest(prompt, output),))
    return WorkloadRun(RunId(run), TenantId(client), ApplicationId(client), arrival, (stage,))


def real_trace(seed: int) -> list[WorkloadRun]:
    """The trace as recorded with seed 0; with others each client's part of it comes later, round and round."""
    with gzip.open(REAL_TRACE, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    end = max(float(row["time"]) for row in rows)
    shift = {
        c: random.Random(f"{seed}/{c}").uniform(0, LARGEST_SHIFT) if seed else 0.0 for c in {r["client"] for r in rows}
    }
    runs = [
        single_request(
            f"r{i}",
            row["client"],
            (float(row["time"]) + shift[row["client"]]) % (end + 1e-9),
            int(row["prompt_tokens"]),
            int(row["output_tokens"]),
        )
        for i, row in enumerate(rows)
    ]
    return sorted(runs, key=lambda run: run.arrival)
