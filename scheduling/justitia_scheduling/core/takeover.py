"""Replacing the policy while requests wait: the new one is told of every open run and request, in order of events.

Carried: runs with their arrival and the KV token-time that they have attained; requests with their arrival, state,
tokens and preemptions, in the order in which they arrived, were admitted and were preempted; weights, applications'
shares, KV space, and whom to ask what the prefix cache has; and, where the cost model stays the same, what every
request was charged and the service of every tenant and application. Not carried, because only the old policy can read
it: tags, lifts and estimates; the new policy makes its own from then on.
Nothing is charged twice. What is counted for people goes on: tenants' KV token-time, and revisions.
"""

from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import Seconds


def carry_over(old: Policy, new: Policy, now: Seconds, *, keep_service: bool) -> None:
    """Tell `new`, a fresh policy, all that is open in `old`. `old` is left as it is."""
    new.in_cache = old.in_cache
    for tenant, weight in old.weights.items():
        new.set_weight(tenant, weight, now)
    for application, share in old.shares.items():
        new.set_application(application, *share, now)
    if old.capacity is not None:
        new.set_capacity(old.capacity, now)
    arrived: list[OpenRun | OpenRequest] = [*old.runs.values(), *old.requests.values()]
    for each in sorted(arrived, key=lambda opened: opened.sequence):
        if isinstance(each, OpenRun):
            new.run_resumed(each)
        else:
            new.request_resumed(each, each.charged if keep_service else 0.0)
    new.time_passed(now)
    _admit_and_preempt(old, new, now)
    attained = {run.id: run.kv_token_time for run in old.runs.values() if run.kv_token_time}
    if attained:
        new.delivery_resumed(attained, now)
    new.kv_token_time.update(old.kv_token_time)
    new.revisions = old.revisions
    if keep_service:
        new.service.update(old.service)
        new.application_service.update(old.application_service)


def _admit_and_preempt(old: Policy, new: Policy, now: Seconds) -> None:
    """Preempt again, once, each request that was preempted, in the order in which they lost their KV. Then admit the
    batch again, in the order in which requests joined it.
    """
    for request in sorted((r for r in old.requests.values() if r.preemptions), key=lambda r: r.waits_since):
        new.admission_resumed(request.id, now)
        new.preempted(request.id, now)
        new.requests[request.id].preemptions = request.preemptions
    for request_id in old.running:
        new.admission_resumed(request_id, now)
