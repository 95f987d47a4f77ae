"""Shortest job first by request."""

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.sjf import SJF
from support.script import Script


def sjf() -> Script:
    return Script(SJF(KVTokenTimeCost()))


def test_the_shortest_predicted_output_goes_first_whatever_the_prompt() -> None:
    host = sjf()
    long = host.ask_alone(prompt=1, output=50)
    short = host.ask_alone(prompt=500, output=5)
    same = host.ask_alone(prompt=1, output=5)
    assert host.admit_all() == [short, same, long]


def test_without_a_prediction_the_applications_mean_output_stands_in() -> None:
    host = sjf()
    for application, tokens in (("chat", 30), ("chat", 50), ("tool", 4)):
        request = host.ask_alone(application=application)
        host.admit()
        host.produce(request, tokens)
        host.finish(request)
    chat = host.ask_alone(application="chat")
    between = host.ask_alone(output=39)
    after = host.ask_alone(output=41)
    tool = host.ask_alone(application="tool")
    unknown = host.ask_alone(application="other")  # the pool's mean: 28
    assert host.policy.order() == [tool, unknown, between, chat, after]


def test_the_longest_is_preempted_and_returns_before_all_others() -> None:
    host = sjf()
    host.ask_alone(output=5)
    long = host.ask_alone(output=90)
    host.admit_all()
    short = host.ask_alone(output=1)
    assert host.preempt() == long
    assert host.policy.order() == [long, short]
