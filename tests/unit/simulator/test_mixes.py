"""Workloads of the papers: who sends how much, and when."""

import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, pvariance

import pytest

from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import WeightedTokens
from justitia_simulator.arrivals import (
    azure_arrivals,
    conversation_arrivals,
    full_engine_seconds,
    offered_load,
    poisson_arrivals,
    scaled_to_load,
)
from justitia_simulator.engine import Engine
from justitia_simulator.mixes import (
    LIGHT_REASONING,
    REASONING,
    SHAREGPT,
    reasoning_mix,
    recorded_requests,
    single_requests,
    starvation_mix,
    vtc_workload,
)
from justitia_simulator.profiles import find_profile
from justitia_simulator.suite import agent_suite, class_counts, per_run
from justitia_simulator.workload import WorkloadRequest
from support.measured import measured


def service(request: WorkloadRequest) -> float:
    return request.prompt_tokens * 0.0002 + request.output_tokens * 0.003


def test_the_suite_has_exact_class_counts() -> None:
    counts = class_counts(300)
    assert counts == {
        "EV": 44, "FV": 43, "CC": 43, "ALFWI": 43, "KBQAV": 43, "PE": 26, "CG": 26, "SC": 26, "DM": 3, "MRS": 3,
    }  # fmt: skip
    assert Counter(run.application for run in agent_suite(seed=4)) == counts


def test_a_seed_keeps_the_runs_whatever_the_window_and_the_tenants() -> None:
    one, other = agent_suite(60, seed=2, window=360), agent_suite(60, seed=2, window=1080, tenants={"a": 1, "b": 3})
    assert [run.stages for run in one] == [run.stages for run in other]
    assert [run.arrival * 3 for run in one] == pytest.approx([run.arrival for run in other], abs=0.01)
    assert agent_suite(60, seed=3) != agent_suite(60, seed=2)


def test_tenants_have_their_share_of_the_runs_or_each_run_is_one() -> None:
    counts = Counter(run.tenant for run in agent_suite(400, seed=1, tenants={"a": 1, "b": 3}))
    assert counts["b"] == pytest.approx(300, abs=35)
    assert len({run.tenant for run in per_run(agent_suite(50, seed=1))}) == 50


def test_arrivals_scaled_to_a_load_offer_it() -> None:
    suite = agent_suite(50, seed=1)
    scaled = scaled_to_load(suite, 2.4, 7344, 0.04)
    assert offered_load(scaled, 7344, 0.04) == pytest.approx(2.4)
    work = sum(run.cost for run in suite)
    assert scaled[-1].arrival == pytest.approx(work / 7344 * 0.04 / 2.4)
    with pytest.raises(ValueError, match="every run arrives at 0"):
        offered_load([replace(suite[0], arrival=0.0)], 7344, 0.04)


def test_conversation_arrivals_lie_in_the_window_off_the_three_second_grid_and_are_uneven() -> None:
    moments = conversation_arrivals(3000, 1080.0, random.Random(1))
    assert moments == sorted(moments)
    assert 0 <= moments[0] < moments[-1] < 1080
    assert len({round(t % 3, 3) for t in moments}) > 1000
    assert sum(t < 540 for t in moments) == pytest.approx(1500, abs=450)


@pytest.mark.parametrize(
    ("name", "rates", "seconds"),
    [
        ("overload", (1.5, 3), 360),
        ("overload-multi", (0.4, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6), 360),
        ("overload-weighted", (0.8, 0.8, 1.2, 1.6), 360),
        ("proportional", (0.25, 0.5, 1.5), 600),
        ("on-off-less", (0.25, 2), 600),
        ("on-off-overload", (1, 3), 600),
        ("increase", (0.5, 1.1), 600),
        ("dist-shift", (0.25 + 1 + 0.5, 2 + 1 + 1.5), 300),
    ],
)
def test_vtc_clients_send_at_their_rates(name: str, rates: tuple[float, ...], seconds: float) -> None:
    counts = Counter(run.tenant for run in vtc_workload(name, seed=1))
    for index, rate in enumerate(rates):
        assert counts[str(index)] == pytest.approx(rate * seconds, rel=0.21 if "on-off" in name else 0.12)


@pytest.mark.parametrize("name", ["overload-multi", "overload-weighted", "on-off-less"])
def test_vtc_clients_send_as_measured_but_for_the_phase(name: str) -> None:
    ours, theirs = defaultdict(list), defaultdict(list)
    for run in vtc_workload(name, seed=1):
        ours[run.tenant].append(run.arrival)
    for request in measured(name, {"overload-weighted": "vtc-weighted"}.get(name, "fcfs")):
        theirs[request.client].append(request.arrival)
    assert ours.keys() == theirs.keys()
    if name == "overload-weighted":
        del ours["0"], theirs["0"]  # Theirs was run with half the rate that the paper gives.
    for client, moments in theirs.items():
        assert len(ours[client]) == pytest.approx(len(moments), abs=2)
        gap = moments[1] - moments[0]
        assert gap <= ours[client][0] <= 2 * gap
        assert sorted({round(b - a, 3) for a, b in pairwise(ours[client])}) == pytest.approx(
            sorted({round(b - a, 3) for a, b in pairwise(moments)}), abs=0.002
        )
        assert all(t // 60 % 2 == 0 for t in ours[client]) == all(t // 60 % 2 == 0 for t in moments)


def test_the_shift_has_its_three_parts_one_after_the_other() -> None:
    parts = Counter((run.tenant, int(run.arrival // 300)) for run in vtc_workload("dist-shift", seed=3))
    assert [parts["0", k] for k in range(3)] == pytest.approx([90, 300, 150], abs=3)
    assert [parts["1", k] for k in range(3)] == pytest.approx([600, 300, 450], abs=3)


def test_a_rising_rate_rises_evenly() -> None:
    moments = [run.arrival for run in vtc_workload("increase", seed=1) if run.tenant == "1"]
    assert len(moments) == 660
    # The integral of the rate over the first half: 0.2 * 300 + 1.8 * 300^2 / 1,200.
    assert sum(t < 300 for t in moments) == pytest.approx(195, abs=1)
    assert moments[-1] < 600


def test_the_real_trace_is_as_recorded_with_seed_0_and_keeps_its_requests_with_any() -> None:
    recorded, shifted = vtc_workload("real", seed=0), vtc_workload("real", seed=1)
    assert [(r.arrival, r.tenant, r.requests[0]) for r in recorded] == recorded_requests()
    assert (len(recorded), len({r.tenant for r in recorded}), round(recorded[-1].arrival)) == (1500, 27, 600)
    lengths = [Counter((r.tenant, r.requests[0].prompt_tokens, r.requests[0].output_tokens) for r in w)
               for w in (recorded, shifted)]  # fmt: skip
    assert lengths[0] == lengths[1]
    assert [r.arrival for r in recorded] != [r.arrival for r in shifted]
    assert shifted[-1].arrival <= recorded[-1].arrival


def test_poisson_clients_do_not_send_evenly() -> None:
    runs = vtc_workload("poisson-short-long", seed=1)
    short = [run.arrival for run in runs if run.requests[0].prompt_tokens == 64]
    gaps = [b - a for a, b in pairwise(short)]
    assert fmean(gaps) == pytest.approx(1 / 8, rel=0.1)
    assert fmean(g * g for g in gaps) == pytest.approx(2 / 64, rel=0.2)


def test_an_unknown_vtc_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown VTC workload 'x': choose one of overload, overload-multi"):
        vtc_workload("x", seed=1)


def test_reasoning_lengths_follow_the_trace_and_the_light_ones_are_capped() -> None:
    rng = random.Random(1)
    heavy = [REASONING.draw(rng).output_tokens for _ in range(20_000)]
    assert fmean(heavy) == pytest.approx(1527, rel=0.05)
    assert sorted(heavy)[19_800] == pytest.approx(12_607, rel=0.15)
    assert max(LIGHT_REASONING.draw(rng).output_tokens for _ in range(5000)) == 4096


def test_sharegpt_lengths_follow_the_data_set() -> None:
    rng = random.Random(1)
    drawn = [SHAREGPT.draw(rng) for _ in range(20_000)]
    assert fmean(r.prompt_tokens for r in drawn) == pytest.approx(2340, rel=0.05)
    assert fmean(r.output_tokens for r in drawn) == pytest.approx(439, rel=0.05)


@pytest.mark.parametrize(("trace", "least"), [("conversation", 1.3), ("code", 10.0)])
def test_azure_arrivals_keep_the_rate_and_are_burstier_than_poisson(trace: str, least: float) -> None:
    def dispersion(moments: list[float]) -> float:
        """Variance over mean of the arrivals in 10 s; one for a Poisson process."""
        counts = Counter(int(t // 10) for t in moments)
        inside = [counts[i] for i in range(int(moments[-1] // 10))]
        return pvariance(inside) / fmean(inside)

    moments = azure_arrivals(trace, 2.0, 6000, random.Random(1))
    assert moments == sorted(moments)
    assert moments[-1] == pytest.approx(3000)
    assert dispersion(moments) > least > dispersion(poisson_arrivals(2.0, 6000, random.Random(1)))


@pytest.mark.parametrize(("engine", "count"), [("a10g-llama2-7b", 150), ("a100-80g-llama2-7b", 1200)])
@pytest.mark.parametrize("prompt", [64, 1024])
def test_a_full_engine_takes_about_as_long_as_is_computed(engine: str, count: int, prompt: int) -> None:
    profile = find_profile(engine)
    requests = [WorkloadRequest(prompt, 128)] * count
    runs = single_requests([(0.0, "t", request) for request in requests], "a")
    served = Engine(build_policy("fcfs", WeightedTokens()), profile, label="").serve(runs).requests
    makespan = max(r.finished or 0.0 for r in served)
    assert full_engine_seconds(requests, profile) == pytest.approx(makespan, rel=0.2)


@pytest.mark.parametrize("share", [0.2, 0.7, 1.0])
def test_a_reasoning_mix_has_its_share_and_its_utilisation(share: float) -> None:
    runs = reasoning_mix(4000, share, seed=1, rho=0.9, service_seconds=service)
    assert sum(run.application == "reasoning" for run in runs) == share * 4000
    assert sum(service(run.requests[0]) for run in runs) / runs[-1].arrival == pytest.approx(0.9, rel=0.06)


def test_one_in_ten_requests_of_the_starvation_mix_is_long() -> None:
    requests = [run.requests[0] for run in starvation_mix(500, seed=1, rho=0.9, service_seconds=service)]
    assert Counter((r.prompt_tokens, r.output_tokens) for r in requests) == {(125, 100): 450, (2000, 6000): 50}
