"""`justitia workload` makes files, and mistakes end in one line, code 2 and nothing written."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from justitia_cli.main import app
from justitia_simulator.arrivals import full_engine_seconds
from justitia_simulator.mixes import VTC_NAMES
from justitia_simulator.profiles import find_profile
from justitia_simulator.workload import load_workload

GOOD = '{"run":"r","tenant":"t","application":"a","arrival":0,"prompt_tokens":10,"output_tokens":5}\n'


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (("agents", "--count", 50, "--tenant", "a=1", "--tenant", "b=2"), 50),
        (("agents", "--count", 50, "--per-run"), 50),
        (("vtc", "on-off-less"), 1350),
        (("vtc", "real"), 1500),
        (("reasoning", "--count", 40, "--light", "--others", "code"), 40),
        (("reasoning", "--count", 40, "--others", "sharegpt", "--arrivals", "azure-code"), 40),
        (("starvation", "--count", 40), 40),
        (("turns", "--sessions", 20, "--scale", 0.1, "--tenant", "a=1", "--tenant", "b=2"), 20),
    ],
)
def test_a_workload_file_is_made_the_same_for_the_same_seed(
    tmp_path: Path, arguments: tuple[object, ...], runs: int
) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert invoke("workload", *arguments, "--seed", seed, "--out", tmp_path / f"{name}.jsonl")[0] == 0
    assert len(load_workload(tmp_path / "a.jsonl")) == runs
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert (tmp_path / "a.jsonl").read_bytes() != (tmp_path / "c.jsonl").read_bytes()


def test_agents_offer_the_load_asked_of_the_engine(tmp_path: Path) -> None:
    out = tmp_path / "w.jsonl.gz"
    asked = ("--load", 2, "--engine", "h100-llama2-7b", "--kv-tokens", 5000)
    assert invoke("workload", "agents", "--count", 50, *asked, "--out", out)[0] == 0
    runs = load_workload(out)
    profile = msgspec.structs.replace(find_profile("h100-llama2-7b"), kv_tokens=5000)
    seconds = full_engine_seconds([r for run in runs for r in run.requests], profile)
    assert seconds / runs[-1].arrival == pytest.approx(2)


def test_a_faster_engine_is_asked_more_often_at_the_same_utilisation(tmp_path: Path) -> None:
    ends = []
    for engine in ("a100-80g-llama2-7b", "h100-llama2-7b"):
        out = tmp_path / f"{engine}.jsonl"
        assert invoke("workload", "starvation", "--count", 100, "--engine", engine, "--out", out)[0] == 0
        runs = load_workload(out)
        seconds = full_engine_seconds([r for run in runs for r in run.requests], find_profile(engine))
        assert seconds / runs[-1].arrival == pytest.approx(0.99, rel=0.3)
        ends.append(runs[-1].arrival)
    assert ends[1] < 0.8 * ends[0]


def test_the_help_lists_the_workloads_of_vtc() -> None:
    text = CliRunner().invoke(app, ["workload", "vtc", "--help"]).stdout
    assert {name for name in VTC_NAMES if name in text} == set(VTC_NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("agents", "--tenant", "a=0"), "--tenant a=0: must be positive and finite"),
        (("agents", "--tenant", "a"), "--tenant 'a': expected NAME=VALUE"),
        (("agents", "--count", "0"), "--count"),
        (("agents", "--window", "nan"), "--window"),
        (("agents", "--load", "nan"), "--load"),
        (("agents", "--load", "-1"), "--load"),
        (("trace", "/nowhere.csv", "--tenant", "a=nan"), "--tenant a=nan: must be positive and finite"),
        (("vtc", "nothing"), "unknown VTC workload 'nothing'"),
        (("reasoning", "--share", "1.5"), "--share"),
        (("reasoning", "--rho", "inf"), "--rho"),
        (("reasoning", "--engine", "abacus"), "unknown engine 'abacus'"),
        (("reasoning", "--others", "poems"), "--others"),
        (("starvation", "--count", "-1"), "--count"),
        (("reasoning", "--rho", "nan"), "--rho"),
    ],
)
def test_a_bad_option_is_refused_before_anything_is_written(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, text = invoke("workload", *arguments, "--out", tmp_path / "w.jsonl")
    assert code == 2
    assert message in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", "w.jsonl:2: JSON is malformed"),
        (GOOD.replace('"prompt_tokens":10', '"prompt_tokens":-1'), "w.jsonl:2: Expected `int` >= 1"),
        (GOOD.replace('"prompt_tokens":10', '"prompt_tokens":1000000000'), "w.jsonl:2: Expected `int` <= 10000000"),
        (GOOD.replace('"arrival":0', '"arrival":NaN'), "w.jsonl:2: JSON is malformed"),
        (GOOD.replace('"arrival":0', '"arrival":1e999'), "w.jsonl:2: "),
        (GOOD.replace('"arrival":0', '"arrival":1e12'), "w.jsonl:2: Expected `float` <= 1000000000.0"),
        (GOOD.replace('"output', '"predicted_cost":1e999,"output'), "w.jsonl:2: "),
        (GOOD.replace('"t"', '"u"'), "w.jsonl:2: tenant of run 'r'"),
    ],
)
def test_a_bad_workload_line_is_refused_with_its_place_and_no_results(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "w.jsonl").write_text(GOOD + line)
    code, text = invoke("simulate", tmp_path / "w.jsonl", "--out", tmp_path / "out")
    assert code == 2
    assert message in text
    assert text.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--policy", "lottery"), "unknown policy 'lottery'"),
        (("--prediction", "oracle"), "unknown prediction 'oracle'"),
        (("--prediction", "noisy:0"), "prediction noisy:0: the factor"),
        (("--weight", "t=-1"), "--weight t=-1: must be positive and finite"),
        (("--weight", "t=nan"), "--weight t=nan: must be positive and finite"),
        (("--engine", "abacus"), "abacus"),
        (("--cost-model", "free"), "unknown cost model 'free'"),
    ],
)
def test_a_bad_option_of_simulate_is_refused_in_one_line(tmp_path: Path, option: tuple[str, ...], message: str) -> None:
    (tmp_path / "w.jsonl").write_text(GOOD)
    code, text = invoke("simulate", tmp_path / "w.jsonl", "--out", tmp_path / "out", *option)
    assert code == 2
    assert message in text
    assert text.count("\n") == 1
    assert not (tmp_path / "out").exists()
