"""A user's mistake is one line, exit code 2, and nothing written; help comes without the commands' libraries."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from justitia_cli.main import COMMANDS, Deferred, app

GOOD = '{"run":"r","tenant":"t","application":"a","arrival":0,"prompt_tokens":10,"output_tokens":5}\n'
URL = "http://127.0.0.1:9/v1"

MISTAKES = [
    ("nothing", "No such command 'nothing'"),
    ("simulate --out out", "Missing argument 'workload'"),
    ("simulate good.jsonl", "Missing option '--out'"),
    ("simulate good.jsonl --out out --policies fcfs", "No such option: --policies"),
    ("simulate good.jsonl --out out --kv-tokens 0", "--kv-tokens"),
    ("simulate good.jsonl --out out --kv-tokens -5", "--kv-tokens"),
    ("simulate good.jsonl --out out --kv-tokens 1000000000000", "--kv-tokens"),
    ("simulate good.jsonl --out out --kv-tokens many", "--kv-tokens"),
    ("simulate good.jsonl --out out --kv-tokens nan", "--kv-tokens"),
    ("simulate good.jsonl --out out --seed x", "--seed"),
    ("simulate good.jsonl --out out --policy best", "unknown policy 'best'"),
    ("simulate good.jsonl --out out --engine tpu", "unknown engine 'tpu'"),
    ("simulate good.jsonl --out out --engine good.jsonl.json", "good.jsonl.json"),
    ("simulate good.jsonl --out out --prediction guess", "unknown prediction 'guess'"),
    ("simulate good.jsonl --out out --prediction noisy:nan", "noisy:nan"),
    ("simulate good.jsonl --out out --prediction liars:2:2", "liars:2:2"),
    ("simulate good.jsonl --out out --cost-model free", "unknown cost model 'free'"),
    ("simulate good.jsonl --out out --weight t=0", "--weight t=0"),
    ("simulate good.jsonl --out out --weight t=-1", "--weight t=-1"),
    ("simulate good.jsonl --out out --weight t=nan", "--weight t=nan"),
    ("simulate good.jsonl --out out --weight t=inf", "--weight t=inf"),
    ("simulate good.jsonl --out out --weight nobody=2", "--weight nobody: no such tenant in the workload: it has t"),
    ("simulate good.jsonl --out out --weight t=2 --weight t=3", "--weight t=3: 't' is given twice"),
    ("simulate good.jsonl --out empty.jsonl", "empty.jsonl: File exists"),
    ("simulate nowhere.jsonl --out out", "nowhere.jsonl: No such file or directory"),
    ("simulate good.jsonl --out out --engine nowhere.json", "nowhere.json: No such file or directory"),
    ("simulate folder --out out", "folder: Is a directory"),
    ("simulate bad.jsonl --out out", "bad.jsonl:2: "),
    ("simulate torn.jsonl --out out", "torn.jsonl:2: arrival of run 'r'"),
    ("simulate empty.jsonl --out out", "empty.jsonl:1: no requests"),
    ("simulate good.jsonl.gz --out out", "good.jsonl.gz: is not a readable gzip file"),
    ("replay good.jsonl --out out", "Missing option '--base-url'"),
    (f"replay good.jsonl --out out --base-url {URL} --time-scale 0", "--time-scale"),
    (f"replay good.jsonl --out out --base-url {URL} --time-scale nan", "--time-scale"),
    (f"replay good.jsonl --out out --base-url {URL} --time-scale inf", "--time-scale"),
    (f"replay good.jsonl --out out --base-url {URL} --weight t=0", "--weight t=0"),
    (f"replay good.jsonl --out out --base-url {URL} --weight nobody=2", "--weight nobody: no such tenant"),
    (f"replay good.jsonl --out out --base-url {URL} --api-key t", "--api-key 't': expected NAME=VALUE"),
    (f"replay good.jsonl --out out --base-url {URL}", "API key"),
    (f"replay bad.jsonl --out out --base-url {URL} --api-key t=k", "bad.jsonl:2: "),
    (f"replay torn.jsonl --out out --base-url {URL} --api-key t=k", "torn.jsonl:2: "),
    ("report --out r.html", "Missing argument 'folders'"),
    ("report . --out r.html", "not a folder of results"),
    ("report . --out r.html --tables", "No such option: --tables"),
    ("workload agents --count 0 --out w.jsonl", "--count"),
    ("workload agents --count 10000000 --out w.jsonl", "--count"),
    ("workload agents --window nan --out w.jsonl", "--window"),
    ("workload agents --load nan --out w.jsonl", "--load"),
    ("workload agents --load inf --out w.jsonl", "--load"),
    ("workload agents --engine tpu --out w.jsonl", "unknown engine 'tpu'"),
    ("workload agents --kv-tokens 5000 --out w.jsonl", "--kv-tokens 5000: it is for the engine that --load refers to"),
    ("workload agents --out folder", "justitia: folder: Is a directory"),
    ("workload agents --out good.jsonl/w.jsonl", "good.jsonl: "),
    ("workload agents --tenant a=1 --tenant a=2 --out w.jsonl", "--tenant a=2: 'a' is given twice"),
    ("workload agents --tenant a=-1 --out w.jsonl", "--tenant a=-1"),
    ("workload demo --research-work inf --out w.jsonl", "--research-work"),
    ("workload demo --flood-seconds nan --out w.jsonl", "--flood-seconds"),
    ("workload demo --trace good.jsonl --out w.jsonl", "good.jsonl:1: no requests"),
    ("workload vtc nothing --out w.jsonl", "unknown VTC workload 'nothing'"),
    ("workload vtc real", "Missing option '--out'"),
    ("workload reasoning --share -0.1 --out w.jsonl", "--share"),
    ("workload reasoning --share nan --out w.jsonl", "--share"),
    ("workload reasoning --rho 0 --out w.jsonl", "--rho"),
    ("workload reasoning --others poems --out w.jsonl", "--others"),
    ("workload starvation --engine tpu --out w.jsonl", "unknown engine 'tpu'"),
    ("workload trace bad.jsonl --out w.jsonl", "bad.jsonl:1: "),
    ("workload trace torn.csv --out w.jsonl", "torn.csv:2: expected TIMESTAMP,ContextTokens,GeneratedTokens: a time"),
    ("workload trace nowhere.csv --out w.jsonl", "nowhere.csv: No such file or directory"),
    ("workload demo --trace folder --out w.jsonl", "folder: Is a directory"),
    ("workload trace good.csv --tenant a=nan --out w.jsonl", "--tenant a=nan"),
    ("calibrate --out p.json", "Missing option '--base-url'"),
    ("calibrate --out p.json --base-url nowhere", "--base-url nowhere: expected a URL"),
    (f"calibrate --out p.json --base-url {URL} --kv-tokens 0", "--kv-tokens"),
    (f"calibrate --out p.json --base-url {URL} --rounds -1", "--rounds"),
    (f"calibrate --out p.json --base-url {URL} --max-requests nan", "--max-requests"),
    (f"calibrate --out p.json --base-url {URL} --token-budget 99999999", "--token-budget"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.jsonl").write_text(GOOD)
    (tmp_path / "good.jsonl.gz").write_text(GOOD)
    (tmp_path / "good.jsonl.json").write_text(GOOD)
    (tmp_path / "bad.jsonl").write_text(GOOD + GOOD.replace("10", "-10"))
    (tmp_path / "torn.jsonl").write_text(GOOD + GOOD.replace('"arrival":0', '"arrival":1'))
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "torn.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,3,x\n")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_one_line_with_code_2_and_writes_nothing(folder: Path, line: str, message: str) -> None:
    before = sorted(folder.rglob("*"))
    result = CliRunner().invoke(app, line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("justitia: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_without_a_mistake_there_are_results(folder: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "good.jsonl", "--out", "out"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert (folder / "out/summary.json").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_each_command_what_the_command_says(name: str) -> None:
    described = Deferred(name, *COMMANDS[name])
    assert (described.load().help or "").splitlines()[0] == described.help


def test_help_imports_neither_plots_nor_clients() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from justitia_cli.main import app; "
        "result = CliRunner().invoke(app, ['--help']); assert 'simulate' in result.stdout, result.stdout; "
        "print([m for m in ('matplotlib', 'openai', 'numpy', 'aiohttp', 'kopf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
