"""The command: what it refuses, that it leaves nothing behind, and what it says of a fit."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from justitia_cli.calibrate import Check, check_profile
from justitia_cli.calibrate_measure import Limits, Measurements, plan_measurements
from justitia_cli.main import app
from justitia_simulator.calibration import ArrivalSample, DecodeSample, PrefillSample, build_profile, fit_steps
from justitia_simulator.profiles import find_profile, write_profile
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour


@asynccontextmanager
async def calibrating(out: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "justitia_cli", "calibrate", "--out", str(out), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def written(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def refused(out: Path, *options: str) -> str:
    """The one line on standard error of a calibration that ends with code 2 and writes nothing."""
    result = CliRunner().invoke(app, ["calibrate", "--out", str(out), *options])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert not written(out.parent)
    [line] = result.stderr.splitlines()
    return line


def test_an_endpoint_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    line = refused(tmp_path / "p.json", "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--kv-tokens", "9000")
    assert line.startswith("justitia: http://127.0.0.1:1/v1/")
    assert "reachable" in line


def test_a_kv_space_that_nobody_tells_is_asked_for(tmp_path: Path) -> None:
    assert "--kv-tokens" in refused(tmp_path / "p.json", "--base-url", "http://127.0.0.1:1/v1", "--model", "m")


def test_what_is_no_url_is_one_line(tmp_path: Path) -> None:
    assert "--base-url nonsense" in refused(tmp_path / "p.json", "--base-url", "nonsense")


async def test_an_engine_that_counts_otherwise_is_one_line(tmp_path: Path) -> None:
    """The misbehaving engine says three prompt tokens, whatever it is sent."""
    async with MisbehavingEngine().serving() as engine:
        options = ("--base-url", f"{engine.url}/v1", "--kv-tokens", "9000")
        line = await asyncio.to_thread(refused, tmp_path / "p.json", *options)
    assert "counts 3 tokens in a prompt of 16 ids" in line


async def test_an_interrupt_leaves_no_file_and_no_request(tmp_path: Path) -> None:
    async with MisbehavingEngine().serving() as engine:
        engine.behaviour = Misbehaviour.HANGS
        async with calibrating(tmp_path / "p.json", "--base-url", f"{engine.url}/v1") as process:
            while not engine.open:
                assert process.returncode is None, await process.stderr.read() if process.stderr else ""
                await asyncio.wait([asyncio.create_task(process.wait())], timeout=0.02)
            process.send_signal(signal.SIGINT)
            _, stderr = await process.communicate()
            assert process.returncode == 130
        assert stderr.decode().splitlines() == ["justitia: interrupted; nothing was written"]
        await engine.closed.wait()
    assert not written(tmp_path)


def measured(mixed: Sequence[float]) -> Measurements:
    """An engine of 5 ms a step, 0.5 ms a decoding request, 40 µs a prompt token, 4 ms a request."""
    decode = [DecodeSample(n, n * c, 5e-3 + 0.5e-3 * n) for n in (1, 2, 4, 8) for c in (36, 800)]
    prefill = [PrefillSample(p, 9e-3 + 40e-6 * p) for p in (16, 256, 1024)]
    arrivals = [ArrivalSample(4, 144, n, 16, n, n * (7e-3 + 40e-6 * 16 + 4e-3)) for n in (4, 16)]
    return Measurements(tuple(decode), tuple(prefill), tuple(arrivals), tuple(mixed))


def test_the_check_compares_the_simulated_mixed_load_with_the_median_round(tmp_path: Path) -> None:
    plan = plan_measurements(Limits(2048, 8192, 16, 2048), 3)
    found = measured((1.0, 2.0, 9.0))
    fit = fit_steps(found.decode, found.prefill, found.arrivals, 2048)
    profile = build_profile("it", fit, kv_tokens=8192, block_size=32, token_budget=2048, max_requests=16)
    check = check_profile(profile, plan, found)
    assert check.error == pytest.approx(check.simulated / 2.0 - 1)
    work = [r for client in plan.mixed for r in client.requests]
    whole = sum(4e-3 + 40e-6 * r.prompt_tokens for r in work)
    longest = max(sum(r.output_tokens for r in client.requests) for client in plan.mixed)
    assert whole / 2 < check.simulated < whole + longest * (5e-3 + 0.5e-3 * len(plan.mixed)) + len(work) * 5e-3

    write_profile(profile, tmp_path / "it.json")
    assert find_profile(str(tmp_path / "it.json")) == profile
    assert json.loads((tmp_path / "it.json").read_text())["per_request"] == pytest.approx(4e-3)


def test_a_check_is_positive_where_the_simulation_is_too_slow() -> None:
    assert Check(3.0, (1.0, 2.0, 2.5)).error == pytest.approx(0.5)
