"""Who is served next: the scheduling policies, the same for every host.

Standard library only; no clock, no I/O. A host (simulator, sidecar, engine plug-in) tells a
:class:`~justitia_scheduling.core.policy.Policy` what happened and asks it for the head of the queue.
"""
