"""The fairness figures of the VTC paper (Sheng et al. 2024, section 5.1, tables 2 to 5), as its authors compute them.

At ticks over the arrival window T, in a window of T/10 around each: a client's service s is the cost of its
requests, each spread evenly over the time from its first to its last token, per second; its demand is the cost of its
requests that arrive in the window, per second. The difference at a tick is, summed over clients,
`min(largest s - s, |demand - s|)`: less than the best served and less than asked. Cost is p + 2d weighted tokens.

With T = 600 s: ticks 28.5 i for i = 1..19, centred 30 s later, windows of 60 s. Other T scale all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from justitia_scheduling.model import Seconds, TenantId, Tokens

TICKS = 19
SPACING = 28.5 / 600
WINDOW = 60 / 600


@dataclass(frozen=True, slots=True)
class Served:
    """One served request, as the metric sees it."""

    client: TenantId
    arrival: Seconds
    first_token: Seconds
    finished: Seconds
    prompt_tokens: Tokens
    output_tokens: Tokens

    @property
    def cost(self) -> float:
        return self.prompt_tokens + 2.0 * self.output_tokens

    def cost_within(self, start: Seconds, end: Seconds) -> float:
        """Part of the cost that falls into [start, end] when spread evenly from first to last token."""
        span = self.finished - self.first_token
        if span <= 0:
            return self.cost if start <= self.finished < end else 0.0
        overlap = min(end, self.finished) - max(start, self.first_token)
        return self.cost * max(0.0, overlap) / span


@dataclass(frozen=True, slots=True)
class Fairness:
    """Service difference between clients in weighted tokens per second: largest, mean and population variance."""

    maximum: float
    average: float
    variance: float


def service_difference(
    requests: Sequence[Served], horizon: Seconds, weights: Mapping[TenantId, float] | None = None
) -> Fairness:
    """The paper's figures; service and demand are divided by the client's weight (1 unless given)."""
    window = WINDOW * horizon
    by_client: dict[TenantId, list[Served]] = {}
    for request in requests:
        by_client.setdefault(request.client, []).append(request)
    phi = {client: (weights or {}).get(client, 1.0) for client in by_client}
    differences = []
    for tick in range(1, TICKS + 1):
        centre = SPACING * horizon * tick + window / 2
        start, end = centre - window / 2, centre + window / 2
        service, demand = {}, {}
        for client, mine in by_client.items():
            service[client] = sum(r.cost_within(start, end) for r in mine) / window / phi[client]
            demand[client] = sum(r.cost for r in mine if start <= r.arrival < end) / window / phi[client]
        largest = max(service.values(), default=0.0)
        differences.append(sum(min(largest - s, abs(demand[c] - s)) for c, s in service.items()))
    return Fairness(max(differences), fmean(differences), pvariance(differences))
