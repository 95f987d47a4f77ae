"""How near tenants come to the shares that their weights give them, window by window.

In each window of a given length that starts at a sample, take the tenants that were backlogged throughout: a request
of theirs waited at every sample in it. With two or more, a tenant's share is what it was charged in the window over
what they were all charged; due is its weight over theirs. The window's error is the largest |share - due| among them.

The gap of two tenants is how far apart, in service per weight, they got while both were backlogged: over a row of
samples that find both waiting the range of `W_f / weight_f - W_g / weight_g`, W what a tenant was charged.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import numpy.typing as npt

from justitia_simulator.records import PolicyResults
from justitia_vocabulary.units import Seconds

Array = npt.NDArray[np.float64]


def share_errors(results: PolicyResults, window: Seconds) -> Array:
    """The error of each window in which several tenants were backlogged.

    Raises ValueError if the samples are further apart than the window is long.
    """
    times, service, queued = _columns(results)
    if len(times) > 1 and window < times[1] - times[0]:
        raise ValueError(f"windows of {window} s, but samples lie {times[1] - times[0]} s apart")
    weights = np.array([_weight(results, tenant) for tenant in service])
    amounts = np.array([service[t] for t in service])
    unbroken = np.array([_waiting_since(times, queued[t]) for t in service])
    errors = []
    for end, start in enumerate(np.searchsorted(times, times - window, side="left")):
        if times[end] - times[0] < window:
            continue
        inside = unbroken[:, end] <= times[start]
        got = amounts[inside, end] - amounts[inside, start]
        if inside.sum() < 2 or not got.sum():
            continue
        due = weights[inside] / weights[inside].sum()
        errors.append(np.abs(got / got.sum() - due).max())
    return np.array(errors)


def widest_gaps(results: PolicyResults) -> Mapping[tuple[str, str], float]:
    """The widest gap of each pair of tenants, in the cost model's unit; 0 if they never waited together."""
    _, service, queued = _columns(results)
    widest = dict.fromkeys(combinations(service, 2), 0.0)
    for f, g in widest:
        difference = service[f] / _weight(results, f) - service[g] / _weight(results, g)
        both = (queued[f] > 0) & (queued[g] > 0)
        edges = np.flatnonzero(both[1:] != both[:-1]) + 1
        rows = zip(np.split(difference, edges), np.split(both, edges), strict=True)
        widest[f, g] = max((float(np.ptp(row)) for row, waiting in rows if waiting.any()), default=0.0)
    return widest


def _weight(results: PolicyResults, tenant: str) -> float:
    return results.weights.get(tenant, 1.0)


def _columns(results: PolicyResults) -> tuple[Array, Mapping[str, Array], Mapping[str, Array]]:
    times = np.array(sorted({s.time for s in results.service}))
    place = {time: index for index, time in enumerate(times.tolist())}
    tenants = sorted({s.tenant for s in results.service})
    service = {t: np.zeros(len(times)) for t in tenants}
    queued = {t: np.zeros(len(times)) for t in tenants}
    for sample in results.service:
        service[sample.tenant][place[sample.time]] = sample.service
        queued[sample.tenant][place[sample.time]] = sample.queued
    return times, service, queued


def _waiting_since(times: Array, queued: Array) -> Array:
    """For each sample, the moment since which requests have waited at every sample; infinite if none wait."""
    since = np.empty(len(times))
    start = np.inf
    for index, count in enumerate(queued):
        start = np.inf if not count else min(start, times[index])
        since[index] = start
    return since
