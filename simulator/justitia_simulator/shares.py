"""How near tenants come to the shares that their weights give them, window by window.

In each window of a given length that starts at a sample, take the tenants that were backlogged throughout: a request
of theirs waited at every sample in it. With two or more, a tenant's share is what it was charged in the window over
what they were all charged; due is its weight over theirs. The window's error is the largest |share - due| among them,
and its gap the largest difference between two of them of service per weight, in the cost model's unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from justitia_scheduling.model import Seconds
from justitia_simulator.records import PolicyResults

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ShareErrors:
    """One value per window in which several tenants were backlogged."""

    error: Array
    gap: Array


def share_errors(results: PolicyResults, window: Seconds) -> ShareErrors:
    """Raises ValueError if the samples are further apart than the window is long."""
    times, service, queued = _columns(results)
    if len(times) > 1 and window < times[1] - times[0]:
        raise ValueError(f"windows of {window} s, but samples lie {times[1] - times[0]} s apart")
    weights = np.array([results.weights.get(tenant, 1.0) for tenant in service])
    amounts = np.array([service[t] for t in service])
    unbroken = np.array([_waiting_since(times, queued[t]) for t in service])
    errors, gaps = [], []
    for end, start in enumerate(np.searchsorted(times, times - window, side="left")):
        if times[end] - times[0] < window:
            continue
        inside = unbroken[:, end] <= times[start]
        got = amounts[inside, end] - amounts[inside, start]
        if inside.sum() < 2 or not got.sum():
            continue
        due = weights[inside] / weights[inside].sum()
        per_weight = got / weights[inside]
        errors.append(np.abs(got / got.sum() - due).max())
        gaps.append(per_weight.max() - per_weight.min())
    return ShareErrors(np.array(errors), np.array(gaps))


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
    """At each sample the first of the unbroken row of samples that ends there and finds requests waiting."""
    since = np.empty(len(times))
    start = np.inf
    for index, count in enumerate(queued):
        start = np.inf if not count else min(start, times[index])
        since[index] = start
    return since
