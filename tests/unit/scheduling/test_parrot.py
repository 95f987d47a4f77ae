"""Parrot."""

from justitia_scheduling.baselines.parrot import Parrot
from justitia_scheduling.core.cost import KVTokenTimeCost
from support.script import Script


def test_a_later_stage_of_the_earlier_run_goes_before_the_later_run() -> None:
    host = Script(Parrot(KVTokenTimeCost()))
    host.run("early")
    host.run("late")
    second, first = host.ask("late"), host.ask("early")
    next_stage = host.ask("early")
    assert host.admit_all() == [first, next_stage, second]


def test_preempted_requests_of_the_latest_run_are_the_victims_and_return_first() -> None:
    host = Script(Parrot(KVTokenTimeCost()))
    host.run("early")
    host.run("late")
    kept, gone = host.ask("early"), host.ask("late")
    assert host.admit_all() == [kept, gone]
    waiting = host.ask("early")
    assert host.preempt() == gone
    assert host.policy.order() == [gone, waiting]
