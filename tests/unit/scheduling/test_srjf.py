"""Shortest remaining job first by run."""

from justitia_scheduling.baselines.srjf import SRJF
from justitia_scheduling.core.cost import KVTokenTimeCost
from support.script import Script


def srjf() -> Script:
    return Script(SRJF(KVTokenTimeCost()))


def test_the_run_with_the_least_predicted_cost_goes_first() -> None:
    host = srjf()
    host.run("large", cost=1000)
    host.run("small", cost=100)
    large, small = host.ask("large"), host.ask("small")
    assert host.admit_all() == [small, large]


def test_a_run_that_has_been_served_moves_up_by_what_it_was_delivered() -> None:
    host = srjf()
    host.run("large", cost=200)
    host.run("small", cost=100)
    running = host.ask("large", prompt=29)
    assert host.admit() == running
    waiting, small = host.ask("large"), host.ask("small")
    host.produce(running, 3)  # 30 + 31 + 32 = 93: 107 remain
    assert host.policy.order() == [small, waiting]
    host.produce(running, 1)  # 33: 74 remain
    assert host.policy.order() == [waiting, small]


def test_a_run_beyond_its_prediction_counts_as_nearly_done_and_ties_go_by_arrival() -> None:
    host = srjf()
    host.run("first", cost=1)
    host.run("beyond", cost=20)
    running = host.ask("beyond", prompt=50)
    host.admit()
    host.produce(running, 2)
    beyond, first = host.ask("beyond"), host.ask("first")
    assert host.policy.order() == [first, beyond]


def test_without_a_prediction_the_applications_mean_stands_in() -> None:
    host = srjf()
    host.run("done", application="short")
    request = host.ask("done")
    host.admit()
    host.produce(request, 2)
    host.finish(request)
    host.end("done")
    host.run("told", cost=50)
    host.run("untold", application="short")
    told, untold = host.ask("told"), host.ask("untold")
    assert host.policy.order() == [untold, told]
