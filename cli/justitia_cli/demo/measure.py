"""Measures one phase of the demo: replays a workload against the local pool, and samples its tenants meanwhile."""

import asyncio
import contextlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from justitia_cli.local.pool import LocalPool
from justitia_cli.replay import Replay, ReplayProgress, Target
from justitia_simulator.records import PolicyResults, RequestResult, ServiceSample
from justitia_simulator.workload import WorkloadRun

SAMPLE_SECONDS = 0.5

Show = Callable[[dict[str, Any] | None, str], None]


@dataclass
class DemoPhase:
    """A replay of runs, under the label of the target's policy."""

    pool: LocalPool
    target: Target
    runs: Sequence[WorkloadRun]
    show: Show

    async def measure(self) -> PolicyResults:
        """Replay the runs. The results have the sampled service of each tenant, from 0 at the start."""
        self._samples: list[ServiceSample] = []
        self._progress = ""
        start = asyncio.get_running_loop().time()
        replay = Replay(self.runs, self.target, self._on_progress)
        sampler = asyncio.create_task(self._sample(start))
        try:
            results = await replay.run()
        finally:
            sampler.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampler
        config = self.pool.config
        return replace(
            results,
            service=self._samples,
            weights={tenant.name: tenant.weight for tenant in config.tenants},
            service_unit="engine seconds",
        )

    def _on_progress(self, progress: ReplayProgress) -> None:
        self._progress = f"{progress.elapsed:.0f} s, {progress.finished} of {progress.requests} requests"
        if progress.failed:
            self._progress += f", {progress.failed} failed"

    async def _sample(self, start: float) -> None:
        """A sidecar that is too busy to answer is asked again: replays fill the machine."""
        base: dict[str, float] = {}
        while True:
            try:
                status = await asyncio.to_thread(self.pool.status)
            except OSError:
                await asyncio.sleep(SAMPLE_SECONDS)
                continue
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


def steady_rate(requests: Iterable[RequestResult]) -> float:
    """Weighted tokens a second, without the first and the last tenth of the work, by the ends of requests."""
    done = sorted((r.finished, r.prompt_tokens + 2.0 * r.output_tokens) for r in requests if r.finished is not None)
    total = sum(work for _, work in done)
    so_far = list(accumulate(work for _, work in done))
    first = bisect_left(so_far, total * 0.1)
    last = bisect_left(so_far, total * 0.9)
    return (so_far[last] - so_far[first]) / (done[last][0] - done[first][0])
