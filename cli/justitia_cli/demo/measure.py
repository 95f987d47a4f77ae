"""One phase of the demo: a workload replayed against the local pool, tenants sampled meanwhile."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from justitia_cli.local.pool import LocalPool
from justitia_cli.replay import Replay, ReplayProgress, Target
from justitia_simulator.records import PolicyResults, ServiceSample
from justitia_simulator.workload import WorkloadRun

SAMPLE_SECONDS = 0.5

Show = Callable[[dict[str, Any] | None, str], None]


@dataclass
class Phase:
    """A replay of `runs` under the label `policy`. `limit` ends it after so many seconds, finished or not."""

    pool: LocalPool
    target: Target
    runs: Sequence[WorkloadRun]
    show: Show
    limit: float | None = None

    async def measure(self) -> PolicyResults:
        """Results with the sampled service of every tenant, from 0 at the start."""
        self._samples: list[ServiceSample] = []
        self._progress = ""
        start = asyncio.get_running_loop().time()
        replay = Replay(self.runs, self.target, self._on_progress)
        sampler = asyncio.create_task(self._sample(start))
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.limit):
                    await replay.run()
        finally:
            sampler.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampler
        config = self.pool.config
        return replace(
            replay.results(),
            service=self._samples,
            weights={tenant.name: tenant.weight for tenant in config.tenants},
            service_unit="engine seconds",
        )

    def _on_progress(self, progress: ReplayProgress) -> None:
        self._progress = f"{progress.elapsed:.0f} s, {progress.finished} of {progress.requests} requests"
        if progress.failed:
            self._progress += f", {progress.failed} failed"

    async def _sample(self, start: float) -> None:
        base: dict[str, float] = {}
        while True:
            status = await asyncio.to_thread(self.pool.status)
            now = asyncio.get_running_loop().time() - start
            for tenant in status["tenants"]:
                name = tenant["name"]
                base.setdefault(name, tenant["service"])
                self._samples.append(
                    ServiceSample(
                        self.target.policy,
                        now,
                        name,
                        tenant["service"] - base[name],
                        tenant["queued"],
                        tenant["running"],
                    )
                )
            self.show(status, self._progress)
            await asyncio.sleep(SAMPLE_SECONDS)


def weighted_tokens(results: PolicyResults) -> float:
    """Work that was seen to be done: the prompt of every request that began, and twice the tokens that came."""
    return sum(r.prompt_tokens + 2.0 * r.output_tokens for r in results.requests if r.first_token is not None)
