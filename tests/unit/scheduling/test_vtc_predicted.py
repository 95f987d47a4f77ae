"""VTC with length prediction: what stands on the counter, and when."""

from justitia_scheduling.baselines.vtc_predicted import OracleVTC, PredictedVTC
from justitia_scheduling.core.cost import EngineTime, StepTime, WeightedTokens
from justitia_vocabulary.units import TenantId
from support.script import Script

T = TenantId("t")


def oracle() -> tuple[Script, OracleVTC]:
    policy = OracleVTC(WeightedTokens())
    return Script(policy), policy


def test_the_predicted_output_is_on_the_counter_at_admission_and_only_what_exceeds_it_is_added() -> None:
    host, policy = oracle()
    request = host.ask_alone(prompt=10, output=5)
    host.admit()
    assert (policy.counters[T], policy.service[T]) == (20, 10)
    host.produce(request, 5)
    assert (policy.counters[T], policy.service[T]) == (20, 20)
    host.produce(request, 2)
    assert (policy.counters[T], policy.service[T]) == (24, 24)


def test_an_unused_prediction_is_refunded_at_the_end_and_service_is_what_was_charged() -> None:
    host, policy = oracle()
    request = host.ask_alone(prompt=10, output=50)
    host.admit()
    host.produce(request, 3)
    assert policy.counters[T] == 110
    host.finish(request)
    assert policy.counters[T] == policy.service[T] == 16


def test_an_aborted_request_is_refunded_what_it_did_not_produce() -> None:
    host, policy = oracle()
    request = host.ask_alone(prompt=10, output=50)
    host.admit()
    policy.aborted(request, 0)
    assert policy.counters[T] == policy.service[T] == 10


def test_a_refund_is_made_at_the_weight_the_prediction_was_entered_with() -> None:
    host, policy = oracle()
    policy.set_weight(T, 2, 0)
    request = host.ask_alone(prompt=10, output=50)
    host.admit()
    policy.set_weight(T, 8, 0)
    host.finish(request)
    assert policy.counters[T] == 5


def test_a_request_that_is_preempted_is_predicted_once() -> None:
    host, policy = oracle()
    for _ in range(2):
        host.ask_alone(prompt=10, output=5)
    host.admit_all()
    host.preempt()
    host.admit_all()
    assert policy.counters[T] == 40


def test_without_an_oracle_the_prediction_is_the_mean_of_the_tenants_last_five_outputs() -> None:
    policy = PredictedVTC(WeightedTokens())
    host = Script(policy)
    for tokens in (1000, 10, 20, 30, 40, 50):
        request = host.ask_alone(prompt=10, output=7)
        host.admit()
        host.produce(request, tokens)
        host.finish(request)
    before = policy.counters[T]
    host.ask_alone(prompt=10)
    host.admit()
    assert policy.counters[T] - before == 10 + 2 * 30


def test_a_tenant_without_a_finished_output_is_charged_as_by_plain_vtc() -> None:
    policy = PredictedVTC(WeightedTokens())
    host = Script(policy)
    request = host.ask_alone(prompt=10)
    host.admit()
    assert policy.counters[T] == 10
    host.produce(request, 1)
    assert policy.counters[T] == 12


def test_in_engine_time_a_lone_request_ends_up_charged_about_what_was_predicted() -> None:
    policy = OracleVTC(EngineTime(StepTime(0.01, 0.001, 0.00001)))
    host = Script(policy)
    request = host.ask_alone(prompt=100, output=20)
    host.admit()
    predicted = policy.counters[T]
    host.produce(request, 1, prefilled=100)
    for _ in range(19):
        host.produce(request, 1)
    assert abs(policy.service[T] - predicted) < 1e-9
