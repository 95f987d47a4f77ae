"""Bounds of the relatives of VTC, as their modules derive them, each with a control that breaks it.

With U the most that the requests in the engine can be charged, L the most for one request, E and R the most by which
the requests in the engine outgrow their predictions and fall short of them, for f and g that wait:

    vtc-oracle      c_f - c_g <= L / weight_f
    vtc-predicted   c_f - c_g <= (L + E) / weight_f + R / (smallest weight)
    drr             W_f / weight_f - W_g / weight_g <= 4 * quantum + U / weight_f + U / weight_g
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.baselines.drr import DRR
from justitia_scheduling.baselines.lcf import LCF
from justitia_scheduling.baselines.vtc_predicted import OracleVTC, PredictedVTC
from justitia_scheduling.core.cost import CostModel, KVTokenTimeCost, WeightedTokens
from justitia_scheduling.core.counters import Counters
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.units import TenantId
from support import backlog
from support.backlog import Gap, gaps
from support.examples import examples
from support.reserving_engine import Job, ReservingEngine

CAPACITY = 64
TENANTS = [TenantId(f"t{i}") for i in range(3)]
EQUAL = dict.fromkeys(TENANTS, 1.0)
TOKENS = WeightedTokens()
U = 2.0 * CAPACITY
EPSILON = 1e-6

jobs = backlog.jobs(TENANTS, st.none())
weights = backlog.weights(TENANTS)


def flood(tenant: TenantId, count: int, prompt: int, *outputs: int, arrival: int = 0) -> list[Job]:
    """Requests of one tenant whose outputs go round."""
    return [Job(tenant, prompt, outputs[i % len(outputs)], arrival) for i in range(count)]


def largest_request(workload: list[Job]) -> float:
    """L in weighted tokens, for any prediction that is at most the longest output."""
    return max(job.prompt for job in workload) + 2.0 * max(job.output for job in workload)


def oracle_excess(policy: Policy, workload: list[Job], weight: dict[TenantId, float]) -> float:
    """How far the bound on counters with true lengths was overstepped; 0 or less where it held."""
    largest = largest_request(workload)
    found = gaps(policy, CAPACITY, workload, weight)
    return max((gap.counter - largest / weight[gap.ahead] for gap in found), default=0.0)


@given(workload=jobs, weight=weights)
@examples(60)
def test_true_lengths_keep_counters_within_one_request(workload: list[Job], weight: dict[TenantId, float]) -> None:
    assert oracle_excess(OracleVTC(TOKENS), workload, weight) <= EPSILON


def newcomer_beside_a_full_engine() -> list[Job]:
    return flood(TENANTS[0], 10, 1, 15) + flood(TENANTS[1], 10, 1, 15, arrival=1)


def test_plain_vtc_lets_counters_part_by_more_than_one_request() -> None:
    assert oracle_excess(VTC(TOKENS), newcomer_beside_a_full_engine(), EQUAL) > EPSILON
    assert oracle_excess(OracleVTC(TOKENS), newcomer_beside_a_full_engine(), EQUAL) <= EPSILON


@given(workload=jobs, weight=weights)
@examples(40)
def test_true_lengths_keep_services_within_the_advance_and_one_request(
    workload: list[Job], weight: dict[TenantId, float]
) -> None:
    bound = largest_request(workload) + U
    for gap in gaps(OracleVTC(TOKENS), CAPACITY, workload, weight):
        assert gap.service <= bound / weight[gap.ahead] + bound / weight[gap.behind] + EPSILON


def predicted_excess(policy: Policy, workload: list[Job], weight: dict[TenantId, float]) -> float:
    """How far the bounds with predictions were overstepped, on counters or on services."""
    most = CAPACITY // min(job.size for job in workload)
    ahead = 2.0 * most * max(job.output for job in workload)
    lightest = min(weight.values())

    def one_sided(tenant: TenantId) -> float:
        return (largest_request(workload) + U) / weight[tenant] + ahead / lightest

    def excess(gap: Gap) -> float:
        services = sum(one_sided(tenant) + ahead / weight[tenant] for tenant in (gap.ahead, gap.behind))
        return max(gap.counter - one_sided(gap.ahead), gap.service - services)

    return max((excess(gap) for gap in gaps(policy, CAPACITY, workload, weight)), default=0.0)


@given(workload=jobs, weight=weights)
@examples(60)
def test_predictions_from_the_last_five_outputs_keep_the_bound(
    workload: list[Job], weight: dict[TenantId, float]
) -> None:
    assert predicted_excess(PredictedVTC(TOKENS), workload, weight) <= EPSILON


def test_keeping_what_was_predicted_and_not_produced_breaks_the_bound() -> None:
    class NeverLowered(Counters):
        def charge(self, tenant: TenantId, charge: float, weight: float) -> None:
            super().charge(tenant, max(charge, 0.0), weight)

    no_refund = PredictedVTC(TOKENS)
    no_refund.counters = NeverLowered()
    workload = flood(TENANTS[0], 150, 20, 1, 29) + flood(TENANTS[1], 150, 20, 15)
    assert predicted_excess(no_refund, workload, EQUAL) > EPSILON
    assert predicted_excess(PredictedVTC(TOKENS), workload, EQUAL) <= EPSILON


def drr_excess(policy: DRR, workload: list[Job], weight: dict[TenantId, float], u: float) -> float:
    return max(
        (
            gap.service - 4 * policy.quantum - u / weight[gap.ahead] - u / weight[gap.behind]
            for gap in gaps(policy, CAPACITY, workload, weight)
        ),
        default=0.0,
    )


@pytest.mark.parametrize("cost", [TOKENS, KVTokenTimeCost()], ids=lambda cost: cost.unit)
@given(workload=jobs, weight=weights, quantum=st.sampled_from([0.01, 1.0, 30.0]))
@examples(60)
def test_deficit_round_robin_keeps_its_bound(
    cost: CostModel, workload: list[Job], weight: dict[TenantId, float], quantum: float
) -> None:
    u = cost.in_engine(CAPACITY, max(job.output for job in workload))
    assert drr_excess(DRR(cost, quantum=quantum), workload, weight, u) <= EPSILON


def test_forgiving_debts_breaks_the_bound_of_deficit_round_robin() -> None:
    class Forgiving(DRR):
        """Deducts what a request is charged at admission, and forgives the rest."""

        def on_charged(self, request: OpenRequest, charge: float) -> None:
            if not request.produced:
                super().on_charged(request, charge)

    workload = flood(TENANTS[0], 200, 2, 29) + flood(TENANTS[1], 200, 2, 2)
    assert drr_excess(Forgiving(TOKENS), workload, EQUAL, U) > EPSILON
    assert drr_excess(DRR(TOKENS), workload, EQUAL, U) <= EPSILON


@pytest.mark.parametrize("quantum", [1.0, 50.0])
def test_deficit_round_robin_meets_weights_1_2_4_in_a_long_flood(quantum: float) -> None:
    policy = DRR(TOKENS, quantum=quantum)
    weight = dict(zip(TENANTS, (1.0, 2.0, 4.0), strict=True))
    for tenant, w in weight.items():
        policy.set_weight(tenant, w, 0)
    engine = ReservingEngine(policy, CAPACITY, [job for tenant in TENANTS for job in flood(tenant, 450, 10, 10)])
    while len(engine.admissions) < 700:
        engine.tick()
    assert engine.backlogged() == set(TENANTS)
    per_weight = [policy.service[tenant] / weight[tenant] for tenant in TENANTS]
    assert max(per_weight) / min(per_weight) < 1.05


def test_without_lift_a_newcomer_shuts_out_those_who_stayed() -> None:
    """The isolation that lift gives: from the moment the newcomer waits, VTC keeps its bound and LCF does not."""
    late = flood(TENANTS[0], 200, 10, 20) + flood(TENANTS[1], 200, 10, 20, arrival=600)
    worst = {policy: max(gap.service for gap in gaps(policy(TOKENS), CAPACITY, late, EQUAL)) for policy in (VTC, LCF)}
    assert worst[VTC] <= 2 * U
    assert worst[LCF] > 6 * U
