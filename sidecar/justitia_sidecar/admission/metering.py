"""Meters the tokens of tenants: how many one may use in a minute, and how many have been counted for it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from justitia_api.config import PoolConfig
from justitia_api.status import LimitScope
from justitia_api.wire import Refusal
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.pool.limits import Metered, PoolLimits
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import Seconds, TenantId, Tokens


@dataclass(slots=True)
class TokenBucket:
    """A bucket of tokens per minute that holds a minute's worth. It may go below zero, because a request's tokens are
    known afterwards. `reserved` tokens are expected of requests under way: others have less until those are over.
    `earning` is for how much of a time the bucket fills as the whole limit says.
    """

    per_minute: int
    level: float
    at: Seconds
    earning: Callable[[Seconds, Seconds], Seconds] = lambda since, now: now - since
    reserved: int = 0

    def refill(self, now: Seconds) -> None:
        self.level = min(self.per_minute, self.level + self.earning(self.at, now) * self.per_minute / 60)
        self.at = now

    def wait(self, now: Seconds, elsewhere: int = 0) -> Seconds:
        """Seconds until another request may come; 0 if at once. While requests under way reserve tokens, here or
        `elsewhere`, at most a minute.
        """
        self.refill(now)
        if self.level < 1:
            return (1 - self.level) * 60 / self.per_minute
        reserved = self.reserved + elsewhere
        missing = 1 + reserved - self.level
        return min(60.0, missing * 60 / self.per_minute) if reserved and missing > 0 else 0.0

    def take(self, tokens: int, now: Seconds) -> None:
        self.refill(now)
        self.level -= tokens

    @contextmanager
    def reserving(self, tokens: int) -> Iterator[None]:
        self.reserved += tokens
        try:
            yield
        finally:
            self.reserved -= tokens

    def lower(self, spent: int, now: Seconds) -> None:
        """At least so much is missing."""
        self.refill(now)
        self.level = min(self.level, self.per_minute - spent)


class Metering:
    """Counts each token once, however often the count of its request is looked at. What other engines count and reserve
    comes by `pool_limits`; without it this engine has each limit for itself.
    """

    def __init__(
        self, metrics: SidecarMetrics, clock: Callable[[], Seconds], pool_limits: PoolLimits | None = None
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._buckets: dict[TenantId, TokenBucket] = {}
        self._net: dict[TenantId, int] = {}
        """What was counted of limited tenants while their limits counted over the pool."""
        self._counted: dict[TenantId, int] = {}
        """The most that it has been: what the other engines hear."""
        self._pool_limits = limits = pool_limits or PoolLimits(clock)
        limits.metered, limits.on_counted, limits.on_met = self._metered, self._counted_elsewhere, self._met

    def configure(self, config: PoolConfig) -> None:
        """Take the limits of a configuration. What is left of a limit that stays the same is kept."""
        now, buckets = self._clock(), dict[TenantId, TokenBucket]()
        for tenant in config.tenants:
            name, per_minute = TenantId(tenant.name), tenant.limits.tokens_per_minute
            if per_minute is not None:
                kept = self._buckets.get(name)
                same = kept is not None and kept.per_minute == per_minute
                buckets[name] = kept if same and kept else self._bucket(per_minute, now)
        self._buckets = buckets

    def check(self, tenant: TenantId) -> None:
        """Raises a refusal if the tenant has used up its tokens of the minute."""
        bucket = self._buckets.get(tenant)
        if bucket is not None and (wait := self._wait(tenant, bucket)) > 0:
            raise RefusalError(
                Refusal.RATE_LIMITED,
                f"Your tenant has used its {bucket.per_minute} tokens per minute: retry in {wait:.0f} s.",
                retry_after=wait,
            )

    def reserving(self, tenant: TenantId, expected: Tokens) -> AbstractContextManager[None]:
        """Reserve what is expected of a request in its tenant's limit, if it has one, until the request is over."""
        bucket = self._buckets.get(tenant)
        return nullcontext() if bucket is None else self._reserving(tenant, bucket, expected)

    def count(self, request: TrackedRequest) -> None:
        """Take what has been counted for the request since the last call. If an estimate was too high, the tenant's
        limit gets the difference back; the metrics' counters do not fall.
        """
        account = request.account
        if not (account.produced or account.counted):
            return
        prompt, output = account.prompt - account.metered_prompt, account.produced - account.metered_output
        account.metered_prompt, account.metered_output = account.prompt, account.produced
        labels = (request.tenant, request.application)
        self._metrics.prompt_tokens.labels(*labels).inc(max(0, prompt))
        self._metrics.output_tokens.labels(*labels).inc(max(0, output))
        if (bucket := self._buckets.get(request.tenant)) is not None:
            bucket.take(prompt + output, now := self._clock())
            if self._pool_limits.scope(now) is LimitScope.POOL:
                self._tell(request.tenant, prompt + output)

    # How.

    def _bucket(self, per_minute: int, now: Seconds) -> TokenBucket:
        return TokenBucket(per_minute, per_minute, now, self._pool_limits.earning)

    def _tell(self, tenant: TenantId, tokens: int) -> None:
        """Let the other engines hear of it. What they hear never falls: an estimate that was too high is made up for by
        what is counted next.
        """
        net = self._net[tenant] = self._net.get(tenant, 0) + tokens
        self._counted[tenant] = max(net, self._counted.get(tenant, 0))
        self._pool_limits.touch(tenant)

    def _wait(self, tenant: TenantId, bucket: TokenBucket) -> Seconds:
        return bucket.wait(self._clock(), self._pool_limits.reserved_elsewhere(tenant))

    @contextmanager
    def _reserving(self, tenant: TenantId, bucket: TokenBucket, tokens: Tokens) -> Iterator[None]:
        try:
            with bucket.reserving(tokens):
                self._pool_limits.touch(tenant)
                yield
        finally:
            self._pool_limits.touch(tenant)

    def _metered(self, tenant: TenantId) -> Metered:
        bucket = self._buckets.get(tenant)
        if bucket is None:
            return Metered()
        spent = max(0, round(bucket.per_minute - bucket.level))
        return Metered(self._counted.get(tenant, 0), bucket.reserved, spent)

    def _counted_elsewhere(self, tenant: TenantId, tokens: Tokens) -> None:
        if (bucket := self._buckets.get(tenant)) is not None:
            bucket.take(tokens, self._clock())

    def _met(self, tenant: TenantId, spent: Tokens) -> None:
        if (bucket := self._buckets.get(tenant)) is not None:
            bucket.lower(spent, self._clock())
