"""Justitia/C: virtual time and keys in p + 2d."""

from justitia_scheduling.baselines.justitia_c import JustitiaC
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.gps import in_kv_token_time
from justitia_scheduling.policies.justitia import Justitia
from justitia_vocabulary.units import RunId
from support.script import Script


def test_compute_orders_a_long_prompt_after_a_long_answer_that_holds_less_of_it() -> None:
    """p=1000, d=10: C is 10,055 and p + 2d is 1,020. p=10, d=200: C is 22,100 and p + 2d is 410."""
    for policy, first in ((Justitia(KVTokenTimeCost()), "q1"), (JustitiaC(KVTokenTimeCost()), "q2")):
        host = Script(policy)
        host.run("prompt", cost=10_055, prompt=1_000, output=10)
        host.run("answer", cost=22_100, prompt=10, output=200)
        host.ask("prompt", prompt=1000)
        host.ask("answer", prompt=10)
        assert policy.head() == first


def test_virtual_time_passes_a_lone_runs_tag_when_its_compute_has_been_delivered() -> None:
    policy = JustitiaC(KVTokenTimeCost())
    host = Script(policy)
    host.run("r", prompt=100, output=20)
    request = host.ask("r", prompt=100)
    host.admit()
    host.produce(request, 1, prefilled=100)
    assert policy.virtual_time.now == 102
    for _ in range(19):
        host.produce(request, 1)
    assert policy.virtual_time.now == 140


def test_without_a_prediction_the_applications_mean_compute_stands_in_whatever_cost_was_told() -> None:
    policy = JustitiaC(KVTokenTimeCost())
    host = Script(policy)
    host.run("done")
    request = host.ask("done", prompt=100)
    host.admit()
    host.produce(request, 20, prefilled=100)
    host.finish(request)
    host.end("done")
    now = policy.virtual_time.now
    host.run("next", cost=1e9)
    assert in_kv_token_time(policy.virtual_time.finish(RunId("next"))) == now + 140
