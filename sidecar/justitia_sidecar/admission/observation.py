"""Observes what tenants got lately: shares of service over a sliding window, and quantiles of first tokens.

A tenant's share is its part of all service that was charged in the window, an application's of its tenant's. A
tenant's entitled share at a moment is its weight among the tenants that are active (queued or running), averaged over
the moments at which any was. The caller samples about once a second.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from justitia_api.status import Quantiles
from justitia_vocabulary.units import ApplicationId, Seconds, TenantId

WINDOW: Seconds = 60.0
RECENT = 500

Member = TypeVar("Member", TenantId, ApplicationId)


@dataclass(frozen=True, slots=True)
class _Sample(Generic[Member]):
    at: Seconds
    service: Mapping[Member, float]
    entitled: Mapping[Member, float]


class ShareWindow(Generic[Member]):
    def __init__(self, window: Seconds = WINDOW) -> None:
        self._window = window
        self._samples: deque[_Sample[Member]] = deque()
        self._last: dict[Member, float] = {}

    def restart(self, service: Mapping[Member, float] = MappingProxyType({})) -> None:
        """Begin again, because service is in another unit or counted by another process. Service is counted from
        `service` on.
        """
        self._samples.clear()
        self._last = dict(service)

    def sample(self, service: Mapping[Member, float], active: Mapping[Member, float], now: Seconds) -> None:
        """Add a sample. `service` is cumulative; a sum that is smaller than before began again at 0. `active` maps
        active members to their weights.
        """
        last = {t: self._last.get(t, 0.0) for t in service}
        delta = {t: total - last[t] if total >= last[t] else total for t, total in service.items()}
        self._last = dict(service)
        total_weight = sum(active.values())
        served = {t: grown for t, grown in delta.items() if grown}
        self._samples.append(_Sample(now, served, {t: w / total_weight for t, w in active.items()}))
        while self._samples[0].at <= now - self._window:
            self._samples.popleft()

    def recent(self) -> dict[Member, float]:
        """Service in the window, of the members that got any."""
        sums: defaultdict[Member, float] = defaultdict(float)
        for sample in self._samples:
            for member, service in sample.service.items():
                sums[member] += service
        return sums

    def shares(self) -> dict[Member, float]:
        """Shares of service by member. Empty if nothing was served in the window."""
        sums = self.recent()
        total = sum(sums.values())
        return {member: value / total for member, value in sums.items()}

    def entitled(self) -> dict[Member, float]:
        """Entitled shares by member. Empty if nobody was active in the window."""
        sums: defaultdict[Member, float] = defaultdict(float)
        moments = 0
        for sample in self._samples:
            moments += bool(sample.entitled)
            for member, share in sample.entitled.items():
                sums[member] += share
        return {member: value / moments for member, value in sums.items()} if moments else {}


@dataclass(slots=True)
class RecentValues:
    """The last `RECENT` values of something measured in seconds."""

    values: deque[Seconds] = field(default_factory=lambda: deque(maxlen=RECENT))

    def observe(self, value: Seconds) -> None:
        self.values.append(value)

    def quantiles(self) -> Quantiles:
        if not self.values:
            return Quantiles()
        ranked = sorted(self.values)
        last = len(ranked) - 1
        return Quantiles(p50=ranked[round(0.5 * last)], p99=ranked[round(0.99 * last)])


class FirstTokens:
    """Recent times to first token, by tenant."""

    def __init__(self) -> None:
        self._recent: defaultdict[TenantId, RecentValues] = defaultdict(RecentValues)

    def observe(self, tenant: TenantId, value: Seconds) -> None:
        self._recent[tenant].observe(value)

    def quantiles(self, tenant: TenantId) -> Quantiles:
        return self._recent.get(tenant, RecentValues()).quantiles()
