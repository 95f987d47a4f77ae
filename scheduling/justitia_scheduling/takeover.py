"""Replacing the policy while requests wait: the new one learns of every open run and request, in order.

Carried: runs with the KV token-time that they have attained, requests with their state and tokens, weights, KV space
and, where the cost model stays the same, every tenant's service. Not carried, because only the old policy can read it:
tags, lifts and estimates; the new policy makes its own from the day it takes over. Nothing is charged twice. What is
counted for people goes on: tenants' KV token-time, and revisions.
"""

from justitia_scheduling.cost import KVTokenTimeCost
from justitia_scheduling.model import Seconds
from justitia_scheduling.policy import Policy, Status


def carry_over(old: Policy, new: Policy, now: Seconds, *, keep_service: bool) -> None:
    """Tell `new`, a fresh policy, all that is open in `old`. `old` is left as it is."""
    for tenant, weight in old.weights.items():
        new.set_weight(tenant, weight, now)
    if old.capacity is not None:
        new.set_capacity(old.capacity, now)
    cost_model, new.cost_model = new.cost_model, KVTokenTimeCost()  # which charges nothing at admission
    for run in sorted(old.runs.values(), key=lambda r: r.sequence):
        new.run_arrived(run.run, now)
        new.runs[run.id].aborted = run.aborted
    for request in sorted(old.requests.values(), key=lambda r: r.sequence):
        new.request_arrived(request.request, now)
        if request.status is Status.RUNNING:
            new.admitted(request.id, now)
        opened = new.requests[request.id]
        opened.prefilled, opened.produced, opened.cached = request.prefilled, request.produced, request.cached
    attained = {run.id: run.kv_token_time for run in old.runs.values() if run.kv_token_time}
    for run_id, cost in attained.items():
        new.runs[run_id].kv_token_time = new.runs[run_id].attained = cost
    if attained:
        new.on_delivered(attained, now)
    new.cost_model = cost_model
    new.kv_token_time.update(old.kv_token_time)
    new.revisions = old.revisions
    if keep_service:
        new.service.update(old.service)
