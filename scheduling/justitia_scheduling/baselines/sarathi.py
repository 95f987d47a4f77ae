"""Sarathi: first come, first served on an engine that mixes chunks of prompts with decoding.

Source: Sarathi-Serve, the order of vLLM's present engine and the baseline of tail-aware scheduling. The mixing is the
engine's: every running request decodes one token a step and prompts, in order of admission, fill what is left of the
step's token budget. What remains for the policy is the order of admission.
"""

from justitia_scheduling.policies.fcfs import FCFS


class Sarathi(FCFS):
    """Order key: arrival; a preempted request goes back to the front, and the latest to arrive is preempted first."""
