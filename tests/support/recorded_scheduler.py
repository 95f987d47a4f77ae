"""The scheduler of the engine with policies that write down, event for event, what they are told and what they answer.

Loaded by vLLM in place of `justitia_engine.scheduler.JustitiaScheduler`. `JUSTITIA_TEST_LOG` names the file, pickled
tuples (number of the policy, event, arguments, answer). What the host answers comes as "in_cache", before the event in
which the policy asked. Each policy begins with "made", its name and cost model; what
the engine's step time is taken to be comes as "step_time" before each step.
"""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from justitia_scheduling.baselines.srjf import SRJF
from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies import registry
from support.braked_scheduler import JustitiaScheduler
from support.raising_policy import RaisesAtTheThirdStep

__all__ = ["JustitiaScheduler"]

TOLD = (
    "tune",
    "set_weight",
    "set_application",
    "set_capacity",
    "time_passed",
    "run_arrived",
    "run_resumed",
    "request_arrived",
    "request_resumed",
    "admission_resumed",
    "delivery_resumed",
    "admitted",
    "stepped",
    "preempted",
    "finished",
    "aborted",
    "kept",
    "run_ended",
)
ASKED = ("head", "victim", "gives_way")

_log = Path(os.environ["JUSTITIA_TEST_LOG"]).open("ab")  # noqa: SIM115


_made = 0


def _write(number: int, event: str, arguments: tuple[Any, ...], answer: object = None) -> None:
    pickle.dump((number, event, arguments, answer), _log)
    _log.flush()


def _recorded(name: str, made: Callable[[CostModel], Policy]) -> Callable[[CostModel], Policy]:
    assert isinstance(made, type)
    depth = 0

    def recording(event: str) -> Callable[..., Any]:
        original = getattr(made, event)

        def call(self: Any, *arguments: Any) -> Any:
            nonlocal depth
            if depth:
                return original(self, *arguments)
            if event == "stepped" and self.cost_model.step_time is not None:
                _write(self.number, "step_time", (self.cost_model.step_time,))
            depth += 1
            try:
                answer = original(self, *arguments)
            finally:
                depth -= 1
            _write(self.number, event, arguments, answer)
            return answer

        return call

    def host_answers(self: Any, in_cache: Callable[..., Any] | None) -> None:
        def ask(request: Any) -> Any:
            answer = in_cache(request)  # type: ignore[misc]
            _write(self.number, "in_cache", (request,), answer)
            return answer

        self.asked_of_host = None if in_cache is None else ask

    asked = property(lambda self: self.asked_of_host, host_answers)
    events = {event: recording(event) for event in (*TOLD, *ASKED)}
    recorder = type(f"Recorded{made.__name__}", (made,), {**events, "in_cache": asked})

    def make(cost_model: CostModel) -> Policy:
        global _made  # noqa: PLW0603
        _made += 1
        _write(_made, "made", (name, cost_model))
        policy: Policy = recorder(cost_model)
        policy.number = _made  # type: ignore[attr-defined]
        return policy

    return make


# Pools may not choose SRJF. It starves, which promises are compared with.
for _name, _policy in (registry.POLICIES | {"SRJF": SRJF}).items():
    registry.POLICIES[_name] = _recorded(_name, _policy)


registry.POLICIES["raises-at-the-third-step"] = RaisesAtTheThirdStep
