"""The fairness figures and curves of the VTC paper (Sheng et al. 2024, section 5.1, tables 2 to 6), as its authors do.

What a request costs is spread evenly over the time from its first to its last token; that is a client's service.

- :func:`service_difference`, the tables: at ticks over the arrival window T, in a window of T/10 around each, s is a
  client's service and demand the cost of its requests that arrive there, both per second. The difference at a tick is,
  summed over clients, `min(largest s - s, |demand - s|)`: less than the best served and less than asked.
  With T = 600 s: ticks 28.5 i for i = 1..19, centred 30 s later, windows of 60 s. Other T scale all of it.
- :func:`widest_gap`, figures 3, 15, 16 and 19: `max |W_i(0,t) - W_j(0,t)|`, W the service since the start.
- :func:`service_rates`, figures 3 to 6, 10 and 16: W over a window, per second.
- :func:`response_times`, figures 4 to 6 and 9 to 13: the mean wait for the first token of those that came in a window.

Cost is p + 2d weighted tokens, or `profiled_cost` (section B.2). Where the authors took that one they measured the
demand in weighted tokens all the same (table 3), so cost and demand can be told apart.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from justitia_vocabulary.units import Seconds, TenantId, Tokens

TICKS = 19
SPACING = 28.5 / 600
WINDOW = 60 / 600

Cost = Callable[[Tokens, Tokens], float]
"""The cost of a request, from its prompt and output tokens."""


def weighted_tokens(prompt: Tokens, output: Tokens) -> float:
    return prompt + 2.0 * output


def profiled_cost(prompt: Tokens, output: Tokens) -> float:
    """What prefill and decode of a full batch take, per request: a tenth of section B.2's h, to all its digits."""
    return (
        0.21001891 * prompt
        + 0.10075395 * output
        + 0.0039868 * prompt * output
        + 0.00324733 * output * output
        + 1.14601454
    )


@dataclass(frozen=True, slots=True)
class Served:
    """One served request, as the metric sees it."""

    client: TenantId
    arrival: Seconds
    first_token: Seconds
    finished: Seconds
    prompt_tokens: Tokens
    output_tokens: Tokens

    def part_within(self, start: Seconds, end: Seconds) -> float:
        """The part of its service, of 1, that falls into [start, end)."""
        span = self.finished - self.first_token
        if span <= 0:
            return 1.0 if start <= self.finished < end else 0.0
        overlap = min(end, self.finished) - max(start, self.first_token)
        return max(0.0, overlap) / span


@dataclass(frozen=True, slots=True)
class Fairness:
    """Service difference between clients, cost per second: largest, mean and population variance over the ticks."""

    maximum: float
    average: float
    variance: float


def service_difference(
    requests: Sequence[Served],
    horizon: Seconds,
    weights: Mapping[TenantId, float] | None = None,
    *,
    cost: Cost = weighted_tokens,
    demand_cost: Cost | None = None,
) -> Fairness:
    """The tables' figures; service and demand are divided by the client's weight (1 unless given)."""
    window = WINDOW * horizon
    by_client = _by_client(requests)
    differences = []
    for tick in range(1, TICKS + 1):
        start = SPACING * horizon * tick
        end = start + window
        service, demand = {}, {}
        for client, mine in by_client.items():
            scale = window * _weight(weights, client)
            service[client] = sum(_cost(r, cost) * r.part_within(start, end) for r in mine) / scale
            demand[client] = sum(_cost(r, demand_cost or cost) for r in mine if start <= r.arrival < end) / scale
        largest = max(service.values(), default=0.0)
        differences.append(sum(min(largest - s, abs(demand[c] - s)) for c, s in service.items()))
    return Fairness(max(differences), fmean(differences), pvariance(differences))


def widest_gap(
    requests: Sequence[Served],
    moments: Sequence[Seconds],
    weights: Mapping[TenantId, float] | None = None,
    *,
    cost: Cost = weighted_tokens,
) -> list[float]:
    """For each moment, the difference in service per weight between the best and the worst served client."""
    served = [
        [
            sum(_cost(r, cost) * r.part_within(0.0, moment) for r in mine) / _weight(weights, client)
            for moment in moments
        ]
        for client, mine in _by_client(requests).items()
    ]
    return [max(at) - min(at) for at in zip(*served, strict=True)]


def service_rates(
    requests: Sequence[Served],
    client: TenantId,
    moments: Sequence[Seconds],
    window: Seconds = 60.0,
    *,
    cost: Cost = weighted_tokens,
) -> list[float]:
    """The client's service per second in a window around each moment."""
    mine = [r for r in requests if r.client == client]
    return [
        sum(_cost(r, cost) * r.part_within(moment - window / 2, moment + window / 2) for r in mine) / window
        for moment in moments
    ]


def response_times(
    requests: Sequence[Served], client: TenantId, moments: Sequence[Seconds], window: Seconds = 60.0
) -> list[Seconds | None]:
    """Mean wait of the client's requests whose first token came within half a window of each moment; None: none did."""
    mine = sorted((r.first_token, r.first_token - r.arrival) for r in requests if r.client == client)
    came = [moment for moment, _ in mine]
    means: list[Seconds | None] = []
    for moment in moments:
        near = mine[bisect_left(came, moment - window / 2) : bisect_right(came, moment + window / 2)]
        means.append(fmean(wait for _, wait in near) if near else None)
    return means


def _by_client(requests: Sequence[Served]) -> dict[TenantId, list[Served]]:
    by_client: dict[TenantId, list[Served]] = {}
    for request in requests:
        by_client.setdefault(request.client, []).append(request)
    return by_client


def _cost(request: Served, cost: Cost) -> float:
    return cost(request.prompt_tokens, request.output_tokens)


def _weight(weights: Mapping[TenantId, float] | None, client: TenantId) -> float:
    return (weights or {}).get(client, 1.0)
