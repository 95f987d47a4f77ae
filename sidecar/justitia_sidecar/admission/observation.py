"""Observes what tenants got lately: shares of service over a sliding window, and quantiles of first tokens.

A tenant's share is its part of all service that was charged in the window. Its entitled share at a moment is its weight
among the tenants that are active (queued or running), averaged over the moments at which any was. The caller samples
about once a second.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from justitia_api.status import Quantiles
from justitia_vocabulary.units import Seconds, TenantId

WINDOW: Seconds = 60.0
RECENT = 500


@dataclass(frozen=True, slots=True)
class _Sample:
    at: Seconds
    service: Mapping[TenantId, float]
    entitled: Mapping[TenantId, float]


class ShareWindow:
    def __init__(self, window: Seconds = WINDOW) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()
        self._last: dict[TenantId, float] = {}

    def restart(self, service: Mapping[TenantId, float] = MappingProxyType({})) -> None:
        """Begin again, because service is in another unit or counted by another process. Service is counted from
        `service` on.
        """
        self._samples.clear()
        self._last = dict(service)

    def sample(self, service: Mapping[TenantId, float], active: Mapping[TenantId, float], now: Seconds) -> None:
        """Add a sample. `service` is cumulative; a sum that is smaller than before began again at 0. `active` maps
        active tenants to their weights.
        """
        last = {t: self._last.get(t, 0.0) for t in service}
        delta = {t: total - last[t] if total >= last[t] else total for t, total in service.items()}
        self._last = dict(service)
        total_weight = sum(active.values())
        self._samples.append(_Sample(now, delta, {t: w / total_weight for t, w in active.items()}))
        while self._samples[0].at <= now - self._window:
            self._samples.popleft()

    def shares(self) -> dict[TenantId, float]:
        """Shares of service by tenant. Empty if nothing was served in the window."""
        sums: defaultdict[TenantId, float] = defaultdict(float)
        for sample in self._samples:
            for tenant, service in sample.service.items():
                sums[tenant] += service
        total = sum(sums.values())
        return {tenant: value / total for tenant, value in sums.items()} if total > 0 else {}

    def entitled(self) -> dict[TenantId, float]:
        """Entitled shares by tenant. Empty if nobody was active in the window."""
        sums: defaultdict[TenantId, float] = defaultdict(float)
        moments = 0
        for sample in self._samples:
            moments += bool(sample.entitled)
            for tenant, share in sample.entitled.items():
                sums[tenant] += share
        return {tenant: value / moments for tenant, value in sums.items()} if moments else {}


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
