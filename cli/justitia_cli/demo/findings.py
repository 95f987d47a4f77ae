"""The demo's findings: what was measured, beside what it should be. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from justitia_simulator.records import PolicyResults, RequestResult, ServiceSample

FLOODERS = ("research", "batch")
LIGHT = "support"
SHARE_TOLERANCE = 0.10
TTFT_LIMIT = 1.5


@dataclass(frozen=True)
class Finding:
    """One statement with what was measured and whether it holds."""

    statement: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Backlog:
    """The longest time in which both flooders had requests waiting, and what each was served until its end, from the
    start on: what one had more before both waited, the policy makes up for while they do.
    """

    start: float
    end: float
    service: Mapping[str, float]

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def ratio(self) -> float:
        """Service of the second flooder over that of the first."""
        first, second = (self.service[tenant] for tenant in FLOODERS)
        return second / first if first else float("inf")


def backlog(samples: Iterable[ServiceSample]) -> Backlog:
    """Find the longest window in samples that are in order of time. It ends where one of the two has nothing queued.

    Service is counted from 0 at the start.
    """
    moments: dict[float, dict[str, ServiceSample]] = {}
    for sample in samples:
        moments.setdefault(sample.time, {})[sample.tenant] = sample
    best = Backlog(0.0, 0.0, dict.fromkeys(FLOODERS, 0.0))
    start: float | None = None
    for time, tenants in sorted(moments.items()):
        if any(tenant not in tenants or not tenants[tenant].queued for tenant in FLOODERS):
            start = None
            continue
        start = time if start is None else start
        if time - start > best.seconds:
            best = Backlog(start, time, {tenant: tenants[tenant].service for tenant in FLOODERS})
    return best


def first_token_times(requests: Iterable[RequestResult], tenant: str) -> list[float]:
    """Seconds from ready to first token, for the tenant's requests that got one."""
    return [r.first_token - r.ready for r in requests if r.tenant == tenant and r.first_token is not None]


def mean_jct(results: PolicyResults) -> float:
    return fmean(run.jct for run in results.runs if run.jct is not None)


def unfinished(results: PolicyResults) -> int:
    """The number of runs that the mean leaves out."""
    return sum(run.jct is None for run in results.runs)


def share_bound(slack: float, in_engine: float, weights: Mapping[str, float]) -> float:
    """The most by which the flooders' service per weight may differ while both wait, under tiered Justitia."""
    return 2 * slack + sum(in_engine / weights[tenant] for tenant in FLOODERS)


def find(
    alone: Sequence[float], results: Sequence[PolicyResults], required_backlog: float, bound: float
) -> list[Finding]:
    """The statements of the demo. `results` are of FCFS, VTC, then the default; `bound` is :func:`share_bound`."""
    ours = results[-1]
    window = backlog(ours.service)
    loaded = first_token_times(ours.requests, LIGHT)
    mean_ratio, median_ratio = fmean(loaded) / fmean(alone), median(loaded) / median(alone)
    gap = abs(window.service[FLOODERS[1]] / 2 - window.service[FLOODERS[0]])
    found = [
        Finding(
            f"both flooding tenants had requests waiting for at least {required_backlog:.0f} s",
            f"{window.seconds:.0f} s",
            window.seconds >= required_backlog,
        ),
        Finding(
            "their service in engine seconds is within 10 % of 1 : 2",
            f"1 : {window.ratio:.2f} ({window.service[FLOODERS[0]]:.1f} s and {window.service[FLOODERS[1]]:.1f} s)",
            abs(window.ratio / 2 - 1) <= SHARE_TOLERANCE,
        ),
        Finding(
            f"their service per weight differs by no more than the policy's bound, {bound:.1f} s",
            f"{gap:.2f} s",
            gap <= bound,
        ),
        Finding(
            f"the light tenant's mean time to first token is within {TTFT_LIMIT} x of what it sees alone",
            f"{fmean(loaded) * 1e3:.0f} ms, alone {fmean(alone) * 1e3:.0f} ms: {mean_ratio:.2f} x "
            f"(median {median_ratio:.2f} x, {len(loaded)} requests)",
            mean_ratio <= TTFT_LIMIT,
        ),
    ]
    for other in results[:-1]:
        mean, theirs = mean_jct(ours), mean_jct(other)
        left_out = unfinished(ours) + unfinished(other)
        but = f", without {left_out} runs that did not finish, so they do not compare" if left_out else ""
        found.append(
            Finding(
                f"mean completion time of runs is below that of {other.policy}",
                f"{mean:.1f} s against {theirs:.1f} s ({mean / theirs:.2f} x){but}",
                mean < theirs and not left_out,
            )
        )
    return found
