"""A real vLLM calibrated through the command, then the same load simulated and sent: do the times agree?

The bound is a factor of three, because a shared test machine may be that much busier in one minute than in the next.
It still tells a right fit from a wrong one: each load is dominated by one coefficient, and the last test shows that
without that coefficient, as with a unit or a block taken for a token, the bound is missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import msgspec
import pytest
from typer.testing import CliRunner

from justitia_cli.main import app
from justitia_cli.replay import Target, replay
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_simulator.engine import Engine
from justitia_simulator.profiles import EngineProfile, find_profile
from justitia_simulator.records import FINISHED, PolicyResults
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage, write_workload
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId
from support.serving import BLOCK, KEYS, KV_TOKENS, RunningSidecar, Vllm

pytestmark = pytest.mark.alone

FACTOR = 3.0
REPLAYS = 3
CALIBRATIONS = 3
"""The command refuses what it measured while something else kept the machine busy."""


@dataclass(frozen=True)
class Calibrated:
    profile: EngineProfile
    file: Path


@pytest.fixture(scope="module")
def calibrated(vllm: Vllm, tmp_path_factory: pytest.TempPathFactory) -> Calibrated:
    file = tmp_path_factory.mktemp("calibrated") / "tiny.json"
    arguments = [
        "calibrate",
        "--base-url",
        f"{vllm.url}/v1",
        "--out",
        str(file),
        "--rounds",
        "3",
        "--max-requests",
        "8",
    ]
    for _ in range(CALIBRATIONS):
        result = CliRunner().invoke(app, arguments)
        if "quieter machine" not in result.output:
            break
    assert result.exit_code == 0, result.output
    return Calibrated(find_profile(str(file)), file)


def in_sequence(name: str, requests: int, *, prompt: int, output: int) -> list[WorkloadRun]:
    stages = tuple(WorkloadStage((WorkloadRequest(prompt, output),)) for _ in range(requests))
    return [WorkloadRun(RunId(name), TenantId("gold"), ApplicationId("demo/chat"), 0.0, stages)]


LOADS = {
    "per_prefill_token": in_sequence("long-prompts", 4, prompt=3500, output=1),
    "per_step": in_sequence("long-output", 1, prompt=16, output=300),
}
"""By the coefficient that the load's time consists of; a prompt token's goes with that of its attention."""


def mean_jct(results: PolicyResults) -> Seconds:
    return fmean(run.jct for run in results.runs if run.jct is not None)


def simulate(profile: EngineProfile, workload: Sequence[WorkloadRun]) -> Seconds:
    return mean_jct(Engine(build_policy("fcfs", EngineTime(profile.charge)), profile, label="fcfs").serve(workload))


async def send(sidecar: RunningSidecar, workload: Sequence[WorkloadRun]) -> Seconds:
    """Through the sidecar; the median of a few, with prompts of their own so that no cache answers."""
    taken = []
    for seed in range(REPLAYS):
        target = Target(f"{sidecar.public}/v1", api_keys={"gold": KEYS["gold"]}, seed=seed)
        results = await replay(workload, target)
        assert [r.status for r in results.requests] == [FINISHED] * len(results.requests)
        taken.append(mean_jct(results))
    return median(taken)


def test_the_profile_has_the_engines_own_kv_space(calibrated: Calibrated) -> None:
    assert (calibrated.profile.kv_tokens, calibrated.profile.block_size) == (KV_TOKENS, BLOCK)


def test_simulate_takes_the_file(calibrated: Calibrated, tmp_path: Path) -> None:
    workload = tmp_path / "w.jsonl"
    write_workload(LOADS["per_step"], workload)
    arguments = ["simulate", str(workload), "--engine", str(calibrated.file), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("coefficient", LOADS)
async def test_a_load_takes_as_long_as_the_simulator_says(
    calibrated: Calibrated, sidecar: RunningSidecar, coefficient: str
) -> None:
    measured = await send(sidecar, LOADS[coefficient])
    said = simulate(calibrated.profile, LOADS[coefficient])
    assert 1 / FACTOR < said / measured < FACTOR, f"{said:.3f} s simulated, {measured:.3f} s measured"


@pytest.mark.parametrize("coefficient", LOADS)
def test_without_its_coefficient_a_load_would_miss_the_bound(calibrated: Calibrated, coefficient: str) -> None:
    """Negative control."""
    profile = calibrated.profile
    timing = msgspec.structs.replace(profile.timing, **{coefficient: 0.0})
    attention = 0.0 if coefficient == "per_prefill_token" else profile.per_attended
    broken = msgspec.structs.replace(profile, timing=timing, per_attended=attention)
    assert simulate(broken, LOADS[coefficient]) < simulate(calibrated.profile, LOADS[coefficient]) / FACTOR
