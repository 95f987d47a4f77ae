"""The commands `workload`, `simulate` and `report`, one into the next."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from justitia_cli.main import app
from justitia_cli.report import load_folders
from justitia_simulator.profiles import find_profile, write_profile
from justitia_simulator.records import PolicyResults, RequestResult, run_result
from justitia_simulator.results import write_results
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage, write_workload

TRACE = Path(__file__).parents[3] / "examples/traces/azure2023-conversation.csv"


def invoke(*arguments: object, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    work = ("--research-work", 20_000, "--batch-work", 20_000, "--support-work", 5_000)
    invoke("workload", "demo", "--trace", TRACE, "--out", folder / "w.jsonl.gz", *work)
    policies = ("--policy", "fcfs", "--policy", "tiered-justitia")
    invoke("simulate", folder / "w.jsonl.gz", *policies, "--weight", "batch=2", "--out", folder / "out")
    return folder / "out"


def test_simulate_writes_every_policy_with_its_conditions(simulated: Path) -> None:
    summary = json.loads((simulated / "summary.json").read_text())
    assert list(summary) == ["fcfs", "tiered-justitia"]
    for figures in summary.values():
        assert figures["runs"] == figures["runs_finished"] > 10
        assert figures["tenants"]["batch"]["weight"] == 2.0
        assert sum(t["share"] for t in figures["tenants"].values()) == pytest.approx(1.0)
        assert figures["conditions"] == {
            "source": "simulation",
            "engine": "a10g-llama2-7b",
            "engines": 1,
            "token_budget": 0,
            "kv_tokens": 10_000,
            "prediction": "mean",
            "seed": 1,
        }


class Page(HTMLParser):
    """Collects what a report shows and whatever it would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.outside: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            if name in {"src", "href", "xlink:href", "data"} and not (value or "").startswith("#"):
                self.outside.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_one_page_with_tables_and_plots_that_loads_nothing(simulated: Path, tmp_path: Path) -> None:
    stdout, _ = invoke("report", simulated, "--out", tmp_path / "r.html", "--title", "a < b")
    assert "tiered-justitia" in stdout
    html = (tmp_path / "r.html").read_text()
    page = Page()
    page.feed(html)
    assert (page.outside, page.tags.get("script"), page.tags.get("link")) == ([], None, None)
    assert "@import" not in html
    assert re.findall(r"url\((?!#)", html) == []
    assert (page.tags["svg"], page.tags["figcaption"], page.tags["table"]) == (5, 5, 5)
    for title in (
        "a < b",
        "Completion time of runs per policy",
        "Service per tenant over time",
        "Time to first token per tenant",
        "Waiting of the light tenant (support)",
    ):
        assert title in page.text


def test_the_report_prints_its_figures_as_json(simulated: Path, tmp_path: Path) -> None:
    stdout, _ = invoke("report", simulated, "--out", tmp_path / "r.html", "--json")
    assert json.loads(stdout) == json.loads((simulated / "summary.json").read_text())


def test_the_same_policy_in_two_folders_is_told_apart_by_folder(simulated: Path) -> None:
    assert [r.policy for r in load_folders([simulated, simulated])] == ["out/fcfs", "out/tiered-justitia"] * 2


def test_a_report_of_runs_that_all_failed_still_says_so(tmp_path: Path) -> None:
    failed = RequestResult("live", "r", "t", "a", 0, 0.0, 0.0, None, None, None, 5, 0, 0, "HTTP 503")
    write_results(tmp_path / "o", [PolicyResults("live", [failed], [run_result([failed], 1)])])
    stdout, _ = invoke("report", tmp_path / "o", "--out", tmp_path / "r.html")
    assert "0/1" in stdout
    assert "requests failed" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "best"], "unknown policy 'best': choose one of DistBoost, DLPM, DRR, FCFS, "),
        (["--engine", "tpu"], "unknown engine 'tpu': choose one of a100-40g-llama2-7b, "),
        (["--weight", "t"], "--weight 't': expected NAME=VALUE"),
        (["--weight", "t=0"], "--weight t=0: must be positive and finite"),
        (["--weight", "t=x"], "--weight t=x: 'x' is not a number"),
        (["--cost-model", "free"], "unknown cost model 'free': choose one of EngineTime"),
        (["--kv-tokens", "10"], "a request of run 'r' needs 12 tokens of KV and the engine has 10"),
    ],
)
def test_a_users_mistake_is_one_line_and_leaves_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    write_workload([WorkloadRun("r", "t", "a", 0.0, (WorkloadStage((WorkloadRequest(10, 2),)),))], tmp_path / "w.jsonl")
    _, stderr = invoke("simulate", tmp_path / "w.jsonl", "--out", tmp_path / "out", *arguments, code=2)
    assert stderr.startswith(f"justitia: {message}")
    assert stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_two_engines_serve_what_one_would_in_less_time(tmp_path: Path) -> None:
    requests = WorkloadStage(tuple(WorkloadRequest(500, 200) for _ in range(60)))
    write_workload([WorkloadRun("r", "t", "a", 0.0, (requests,))], tmp_path / "w.jsonl")
    jct = {}
    for engines in (1, 2):
        arguments = [tmp_path / "w.jsonl", "--policy", "fcfs", "--engines", engines, "--out", tmp_path / f"{engines}"]
        invoke("simulate", *arguments)
        [results] = load_folders([tmp_path / f"{engines}"])
        assert results.conditions["engines"] == engines
        jct[engines] = results.runs[0].jct
    assert jct[2] < 0.7 * jct[1]


@pytest.mark.parametrize(
    ("arguments", "budgets"),
    [([], {"fcfs": 0, "sarathi": 512}), (["--token-budget", "256"], {"fcfs": 256, "sarathi": 256})],
)
def test_sarathi_mixes_prompts_with_decoding_and_others_if_asked(
    tmp_path: Path, arguments: list[str], budgets: dict[str, int]
) -> None:
    write_workload([WorkloadRun("r", "t", "a", 0.0, (WorkloadStage((WorkloadRequest(10, 2),)),))], tmp_path / "w.jsonl")
    policies = ["--policy", "fcfs", "--policy", "sarathi"]
    invoke("simulate", tmp_path / "w.jsonl", *policies, *arguments, "--out", tmp_path / "out")
    found = {r.policy: r.conditions["token_budget"] for r in load_folders([tmp_path / "out"])}
    assert found == budgets


def test_an_engine_may_be_a_profiles_file_and_a_bad_one_is_named(tmp_path: Path) -> None:
    write_workload([WorkloadRun("r", "t", "a", 0.0, (WorkloadStage((WorkloadRequest(10, 2),)),))], tmp_path / "w.jsonl")
    file, out = tmp_path / "mine.json", tmp_path / "out"
    write_profile(replace(find_profile("a100-40g-llama2-7b"), name="mine"), file)
    invoke("simulate", tmp_path / "w.jsonl", "--policy", "fcfs", "--engine", file, "--out", out)
    assert [r.conditions["engine"] for r in load_folders([out])] == ["mine"]
    file.write_text("{}")
    _, stderr = invoke("simulate", tmp_path / "w.jsonl", "--engine", file, "--out", out, code=2)
    assert stderr.startswith(f"justitia: {file}: ")
    assert stderr.count("\n") == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    _, stderr = invoke("simulate", tmp_path / "none.jsonl", "--out", tmp_path / "out", code=2)
    assert stderr == f"justitia: {tmp_path}/none.jsonl: No such file or directory\n"


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    _, stderr = invoke("report", tmp_path, "--out", tmp_path / "r.html", code=2)
    assert stderr == f"justitia: {tmp_path}: no summary.json there: not a folder of results\n"
