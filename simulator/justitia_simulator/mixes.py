"""Workloads of single requests: VTC's (section 5 and the authors' published runs) and the tail-aware paper's.

VTC's clients send evenly or by a Poisson process; in on/off patterns client 0 is on for 60 s, then off for 60 s. Rates
in 1/s, lengths in tokens, times in seconds.

Tail-aware (appendix A.3 for the starvation one): a share of reasoning requests, the rest conversation or code.
Lengths come from quantiles that are packaged (`data/README.md`). A rate for a wanted utilisation is
`rho / mean service seconds`, with the mean of the requests that were drawn.
"""

import json
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from justitia_scheduling.model import ApplicationId, RunId, Seconds, TenantId, Tokens
from justitia_simulator.arrivals import even_arrivals, poisson_arrivals
from justitia_simulator.workload import Stage, WorkloadRequest, WorkloadRun

PHASE: Seconds = 60.0
"""Length of an on and of an off phase."""


@dataclass(frozen=True, slots=True)
class Client:
    """What a client sends in [start, start + duration): at `rate`, rising evenly to `final_rate` where given."""

    rate: float
    prompt: Tokens = 256
    output: Tokens = 256
    start: Seconds = 0.0
    duration: Seconds = 600.0
    on_off: bool = False
    poisson: bool = False
    final_rate: float | None = None
    name: str = ""

    def arrivals(self, rng: random.Random) -> list[Seconds]:
        if self.poisson:
            return _until(self.duration, self.rate, self.start, rng)
        if self.final_rate is not None:
            return _rising(self.rate, self.final_rate, self.start, self.duration)
        if self.on_off:
            phases = range(0, round(self.duration / PHASE), 2)
            return [t for i in phases for t in even_arrivals(self.rate, self.start + i * PHASE, PHASE, rng)]
        return even_arrivals(self.rate, self.start, self.duration, rng)


def _until(duration: Seconds, rate: float, start: Seconds, rng: random.Random) -> list[Seconds]:
    moments = []
    moment = rng.expovariate(rate)
    while moment < duration:
        moments.append(start + moment)
        moment += rng.expovariate(rate)
    return moments


def _rising(rate: float, final: float, start: Seconds, duration: Seconds) -> list[Seconds]:
    """The k-th moment is where the integral of the rate reaches k: `rate*t + (final-rate)*t^2/(2*duration) = k`."""
    slope = (final - rate) / duration
    count = int((rate + final) / 2 * duration)
    return [start + 2 * k / (rate + (rate**2 + 2 * slope * k) ** 0.5) for k in range(1, count + 1)]


def _overload(*rates: float) -> tuple[Client, ...]:
    return tuple(Client(rate, duration=360.0) for rate in rates)


VTC_WORKLOADS: dict[str, tuple[Client, ...]] = {
    "overload": _overload(1.5, 3),
    "overload-multi": _overload(0.4, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6),
    "overload-weighted": _overload(0.8, 0.8, 1.2, 1.6),
    "proportional": (Client(0.25), Client(0.5), Client(1.5)),
    "on_off_less": (Client(0.5, on_off=True), Client(2)),
    "on_off_overload": (Client(2, on_off=True), Client(3)),
    "increase": (Client(0.5), Client(0.2, final_rate=2)),
    "poisson_short_long": (Client(8, 64, 64, poisson=True), Client(1.5, poisson=True)),
    "dist_shift": tuple(
        Client(rate, start=start, duration=300.0, on_off=on_off, name=name)
        for start, first, second, on_off in ((0, 0.5, 2, True), (300, 1, 1, False), (600, 0.5, 1.5, False))
        for name, rate, on_off in (("client0", first, on_off), ("client1", second, False))
    ),
}
"""By the names of the authors' files. The weights of `overload-weighted` are 1, 2, 3, 4: give them to the policy."""


def vtc_workload(name: str, *, seed: int) -> list[WorkloadRun]:
    """A workload of VTC's evaluation, in order of arrival. Raises ValueError that lists the names it knows."""
    if name not in VTC_WORKLOADS:
        raise ValueError(f"unknown VTC workload {name!r}: choose one of {', '.join(VTC_WORKLOADS)}")
    arrivals = []
    for index, client in enumerate(VTC_WORKLOADS[name]):
        tenant = client.name or f"client{index}"
        for moment in client.arrivals(random.Random(f"{seed}/{index}")):
            arrivals.append((round(moment, 6), tenant, WorkloadRequest(client.prompt, client.output)))
    return single_requests(arrivals, "chat")


def single_requests(arrivals: Sequence[tuple[Seconds, str, WorkloadRequest]], application: str) -> list[WorkloadRun]:
    """A run for each (arrival, tenant, request), in order of arrival."""
    ordered = sorted(arrivals, key=lambda a: a[0])
    return [
        WorkloadRun(RunId(f"r{i}"), TenantId(tenant), ApplicationId(application), moment, (Stage((request,)),))
        for i, (moment, tenant, request) in enumerate(ordered)
    ]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request: the packaged distribution of its lengths, cut to these maxima."""

    lengths: str
    maximum_prompt: Tokens = 10_000_000
    maximum_output: Tokens = 10_000_000

    def draw(self, rng: random.Random) -> WorkloadRequest:
        prompt, output = quantile(self.lengths, "prompt", rng.random()), quantile(self.lengths, "output", rng.random())
        return WorkloadRequest(min(prompt, self.maximum_prompt), min(output, self.maximum_output))


REASONING = Kind("reasoning")
LIGHT_REASONING = Kind("reasoning", 4096, 4096)
"""Without the heavy tail, near the s1k set's: no output above 4,096 tokens."""
CONVERSATION = Kind("conversation")
CODE = Kind("code")


def reasoning_mix(
    count: int,
    share: float,
    *,
    seed: int,
    rho: float,
    service_seconds: Callable[[WorkloadRequest], Seconds],
    reasoning: Kind = REASONING,
    other: Kind = CONVERSATION,
) -> list[WorkloadRun]:
    """`count` requests of one tenant, this share of them reasoning, arriving by Poisson at utilisation `rho`.

    `service_seconds`: the engine time a request takes when the engine is full, which is the capacity's inverse.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share of reasoning requests is {share}: it must be from 0 to 1")
    rng = random.Random(f"{seed}/lengths")
    reasons = set(rng.sample(range(count), round(count * share)))
    requests = [(reasoning if i in reasons else other).draw(rng) for i in range(count)]
    rate = rho * count / sum(service_seconds(r) for r in requests)
    moments = poisson_arrivals(rate, count, random.Random(f"{seed}/arrivals"))
    return [
        WorkloadRun(
            RunId(f"r{i}"),
            TenantId("t0"),
            ApplicationId("reasoning" if i in reasons else other.lengths),
            round(moments[i], 6),
            (Stage((request,)),),
        )
        for i, request in enumerate(requests)
    ]


def starvation_mix(
    count: int, *, seed: int, rho: float, service_seconds: Callable[[WorkloadRequest], Seconds]
) -> list[WorkloadRun]:
    """Nine short requests (125/100 tokens) to one long (2,000/6,000), by Poisson (tail-aware, A.3)."""
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
