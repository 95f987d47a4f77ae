"""Workloads of single requests: VTC's and the tail-aware paper's.

VTC (sections 5.2 and 5.3, appendices B.1 and B.4), by the names of its authors' files. Clients are numbered from 0, as
there; the paper's figures number them from 1. A client sends evenly or by a Poisson process; one that is on and off is
silent in every other minute. `real` is the trace of section 5.3, packaged as its authors published it.

Tail-aware (section 4, Workloads): a share of reasoning requests, the rest conversation or code, by a Poisson process or
as bursty as an Azure trace; and its starvation experiment (appendix A.3). Lengths come from packaged quantiles
(`data/README.md`). A rate for a wanted utilisation is `rho / mean service seconds`, with the mean of the requests that
were drawn.

Rates in 1/s, lengths in tokens, times in seconds.
"""

import csv
import gzip
import json
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from justitia_simulator.arrivals import even_arrivals, poisson_arrivals
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId, Tokens

PHASE: Seconds = 60.0
"""Length of an on and of an off phase."""

LARGEST_SHIFT: Seconds = 60.0
"""The most by which the clients of the real trace are moved against each other."""


@dataclass(frozen=True, slots=True)
class Client:
    """What a client sends in `duration` seconds from `start` on: at `rate`, rising evenly to `final_rate` if given."""

    rate: float
    prompt: Tokens = 256
    output: Tokens = 256
    start: Seconds = 0.0
    duration: Seconds = 600.0
    on_off: bool = False
    poisson: bool = False
    final_rate: float | None = None

    def arrivals(self, rng: random.Random) -> list[Seconds]:
        if self.poisson:
            return _until(self.duration, self.rate, self.start, rng)
        if self.final_rate is not None:
            return _rising(self.rate, self.final_rate, self.start, self.duration, rng)
        moments = even_arrivals(self.rate, self.start, self.duration, rng)
        return [t for t in moments if t // PHASE % 2 == 0] if self.on_off else moments


def _until(duration: Seconds, rate: float, start: Seconds, rng: random.Random) -> list[Seconds]:
    moments = []
    moment = rng.expovariate(rate)
    while moment < duration:
        moments.append(start + moment)
        moment += rng.expovariate(rate)
    return moments


def _rising(rate: float, final: float, start: Seconds, duration: Seconds, rng: random.Random) -> list[Seconds]:
    """The moments at which the integral of the rate, `rate*t + (final-rate)*t^2/(2*duration)`, is k + a drawn phase."""
    slope = (final - rate) / duration
    phase = rng.random()
    integrals = [k + phase for k in range(int((rate + final) / 2 * duration))]
    return [start + 2 * i / (rate + math.sqrt(rate**2 + 2 * slope * i)) for i in integrals]


def _overload(*rates: float) -> tuple[tuple[Client, ...], ...]:
    return tuple((Client(rate, duration=360.0),) for rate in rates)


VTC_WORKLOADS: dict[str, tuple[tuple[Client, ...], ...]] = {
    "overload": _overload(1.5, 3),
    "overload-multi": _overload(0.4, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6),
    "overload-weighted": _overload(0.8, 0.8, 1.2, 1.6),
    "proportional": ((Client(0.25),), (Client(0.5),), (Client(1.5),)),
    "on-off-less": ((Client(0.5, on_off=True),), (Client(2),)),
    "on-off-overload": ((Client(2, on_off=True),), (Client(3),)),
    "increase": ((Client(0.5),), (Client(0.2, final_rate=2),)),
    "poisson-short-long": ((Client(8, 64, 64, poisson=True),), (Client(1.5, poisson=True),)),
    "poisson-short-long-2": ((Client(8, 64, 512, poisson=True),), (Client(1.5, 512, 64, poisson=True),)),
    "dist-shift": (
        (
            Client(0.5, duration=300, on_off=True),
            Client(1, start=300, duration=300),
            Client(0.5, start=600, duration=300),
        ),
        (Client(2, duration=300), Client(1, start=300, duration=300), Client(1.5, start=600, duration=300)),
    ),
}
"""The parts of each client, one after the other. The weights of `overload-weighted` are 1, 2, 3, 4: give them to the
policy. The authors measured the overloads for 360 s."""

REAL = "real"
VTC_NAMES = (*VTC_WORKLOADS, REAL)


def vtc_workload(name: str, *, seed: int) -> list[WorkloadRun]:
    """A workload of VTC's evaluation, in order of arrival. Raises ValueError that lists the names it knows."""
    if name == REAL:
        return real_trace(seed=seed)
    if name not in VTC_WORKLOADS:
        raise ValueError(f"unknown VTC workload {name!r}: choose one of {', '.join(VTC_NAMES)}")
    return client_requests(VTC_WORKLOADS[name], seed=seed)


def client_requests(clients: Sequence[Sequence[Client]], *, seed: int) -> list[WorkloadRun]:
    """What these clients send, each a tenant named by its number, from 0."""
    arrivals = []
    for number, parts in enumerate(clients):
        rng = random.Random(f"{seed}/{number}")
        for part in parts:
            request = WorkloadRequest(part.prompt, part.output)
            arrivals += [(round(moment, 6), str(number), request) for moment in part.arrivals(rng)]
    return single_requests(arrivals, "chat")


def real_trace(*, seed: int) -> list[WorkloadRun]:
    """The LMSYS Chatbot Arena's trace as recorded with seed 0; with others each client's part comes up to a minute
    later, round and round, and is otherwise the same.
    """
    recorded = recorded_requests()
    end = recorded[-1][0]
    drawn = {tenant: random.Random(f"{seed}/{tenant}").uniform(0, LARGEST_SHIFT) for _, tenant, _ in recorded}
    shift = drawn if seed else dict.fromkeys(drawn, 0.0)
    arrivals = [(round((moment + shift[tenant]) % (end + 1e-9), 6), tenant, r) for moment, tenant, r in recorded]
    return single_requests(arrivals, "chat")


def recorded_requests() -> list[tuple[Seconds, str, WorkloadRequest]]:
    """(arrival, client, request) of the packaged trace, in order of arrival."""
    packed = files("justitia_simulator").joinpath("data/lmsys-arena.csv.gz").read_bytes()
    return [
        (float(row["time"]), row["client"], WorkloadRequest(int(row["prompt_tokens"]), int(row["output_tokens"])))
        for row in csv.DictReader(gzip.decompress(packed).decode().splitlines())
    ]


def single_requests(arrivals: Sequence[tuple[Seconds, str, WorkloadRequest]], application: str) -> list[WorkloadRun]:
    """A run for each (arrival, tenant, request), in order of arrival."""
    ordered = sorted(arrivals, key=lambda a: a[:2])
    return [
        WorkloadRun(RunId(f"r{i}"), TenantId(tenant), ApplicationId(application), moment, (WorkloadStage((request,)),))
        for i, (moment, tenant, request) in enumerate(ordered)
    ]


@dataclass(frozen=True, slots=True)
class RequestKind:
    """A kind of request: the packaged distribution of its lengths, cut to these maxima."""

    lengths: str
    maximum_prompt: Tokens = 10_000_000
    maximum_output: Tokens = 10_000_000

    def draw(self, rng: random.Random) -> WorkloadRequest:
        prompt, output = quantile(self.lengths, "prompt", rng.random()), quantile(self.lengths, "output", rng.random())
        return WorkloadRequest(min(prompt, self.maximum_prompt), min(output, self.maximum_output))


REASONING = RequestKind("reasoning")
LIGHT_REASONING = RequestKind("reasoning", 4096, 4096)
"""No output above 4,096 tokens: without the heavy tail, as the reasoning set of the paper (figure 1a) is."""
CONVERSATION = RequestKind("conversation")
CODE = RequestKind("code")
SHAREGPT = RequestKind("sharegpt")

Arrivals = Callable[[float, int, random.Random], list[Seconds]]
"""Draws so many moments at this rate, in 1/s."""


def reasoning_mix(
    count: int,
    share: float,
    *,
    seed: int,
    rho: float,
    service_seconds: Callable[[WorkloadRequest], Seconds],
    reasoning: RequestKind = REASONING,
    other: RequestKind = CONVERSATION,
    arrivals: Arrivals = poisson_arrivals,
) -> list[WorkloadRun]:
    """`count` requests of one tenant, this share of them reasoning, at utilisation `rho`.

    `service_seconds`: the engine time a request takes when the engine is full, which is the capacity's inverse.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share of reasoning requests is {share}: it must be from 0 to 1")
    rng = random.Random(f"{seed}/lengths")
    reasons = set(rng.sample(range(count), round(count * share)))
    requests = [(reasoning if i in reasons else other).draw(rng) for i in range(count)]
    rate = rho * count / sum(service_seconds(r) for r in requests)
    moments = arrivals(rate, count, random.Random(f"{seed}/arrivals"))
    return [
        WorkloadRun(
            RunId(f"r{i}"),
            TenantId("t0"),
            ApplicationId("reasoning" if i in reasons else other.lengths),
            round(moments[i], 6),
            (WorkloadStage((request,)),),
        )
        for i, request in enumerate(requests)
    ]


def starvation_mix(
    count: int, *, seed: int, rho: float, service_seconds: Callable[[WorkloadRequest], Seconds]
) -> list[WorkloadRun]:
    """Nine short requests (125/100 tokens) to one long (2,000/6,000), by Poisson (appendix A.3, at rho = 0.99)."""
    rng = random.Random(f"{seed}/lengths")
    long = set(rng.sample(range(count), round(count / 10)))
    requests = [WorkloadRequest(2000, 6000) if i in long else WorkloadRequest(125, 100) for i in range(count)]
    rate = rho * count / sum(service_seconds(r) for r in requests)
    moments = poisson_arrivals(rate, count, random.Random(f"{seed}/arrivals"))
    return single_requests([(round(m, 6), "t0", r) for m, r in zip(moments, requests, strict=True)], "chat")


def quantile(kind: str, part: str, probability: float) -> Tokens:
    """The length at this probability, between the kept quantiles interpolated."""
    table = _lengths()
    probabilities: list[float] = table["probabilities"]
    tokens: list[Tokens] = table[kind][part]
    upper = min(bisect_right(probabilities, probability), len(probabilities) - 1)
    below, above = probabilities[upper - 1], probabilities[upper]
    between = (probability - below) / (above - below)
    return max(1, round(tokens[upper - 1] + between * (tokens[upper] - tokens[upper - 1])))


@cache
def _lengths() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(files("justitia_simulator").joinpath("data/lengths.json").read_text())
    return tables
