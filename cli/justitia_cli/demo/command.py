"""`justitia demo`: FCFS, VTC and the default policy on the same engine under the same load, then a report."""

import asyncio
import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from justitia_api.status import PoolStatus
from justitia_cli.console import EXIT_INTERRUPTED, fail, mistakes, output
from justitia_cli.demo.findings import LIGHT, Finding, find, first_token_times, share_bound
from justitia_cli.demo.load import contended_runs, flooding_runs, light_run_alone, plan_load
from justitia_cli.demo.measure import DemoPhase, steady_rate
from justitia_cli.live_table import live_table
from justitia_cli.local.converge import read_keys
from justitia_cli.local.launch import Ports
from justitia_cli.local.manifest import Document, load_manifest
from justitia_cli.local.pool import LocalPool
from justitia_cli.local.ports import free_ports
from justitia_cli.local.session import Session, state_directory
from justitia_cli.local_command import DEMO, ModelOption, find_model, interrupt_on_terminate, progress
from justitia_cli.replay import Target
from justitia_cli.report import build_report
from justitia_cli.runtime import EngineSetupError, ensure_engine
from justitia_cli.tables import print_summary
from justitia_simulator.files import write_bytes
from justitia_simulator.records import FINISHED, PolicyResults
from justitia_simulator.results import write_results
from justitia_simulator.traces import TraceRequest, load_trace
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.policies import PolicyName

POLICIES = {"fcfs": PolicyName.FCFS, "vtc": PolicyName.VTC, "tiered-justitia": PolicyName.TIERED_JUSTITIA}
KV_BLOCKS, BLOCK_SIZE = 256, 32
ENGINE_ARGUMENTS = (
    f"--num-gpu-blocks-override={KV_BLOCKS}",
    f"--block-size={BLOCK_SIZE}",
    "--no-enable-prefix-caching",
    "--max-num-batched-tokens=512",
)
"""A small KV space makes tenants contend. Prefixes are not cached, because the same prompts come under each policy. A
processor takes a second for a step of 2,048 prompt tokens, and whoever comes meanwhile waits for its end.
"""

WARM_UP_WORK, CALIBRATION_WORK = 2_000.0, 20_000.0
"""Work in weighted tokens (prompt + 2 * output): some seconds of a processor."""

REQUIRED_PART = 0.9
"""The part of the planned time in which both flooders must have requests waiting."""
SHORT = 0.25
"""The part of the load that `--short` replays."""


def demo_command(  # noqa: PLR0917
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", "-f", help="YAML file with the resources to run (repeatable); examples/llmapp.yaml unless given"
        ),
    ] = None,
    trace: Annotated[Path, typer.Option(help="CSV with TIMESTAMP,ContextTokens,GeneratedTokens")] = Path(
        "examples/traces/azure2023-conversation.csv"
    ),
    model: ModelOption = DEMO,
    out: Annotated[Path, typer.Option(help="Folder for results and report")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(help="Seed; another one takes another part of the trace")] = 1,
    short: Annotated[bool, typer.Option("--short", help="Replay a quarter of the load; too little for shares")] = False,
) -> None:
    """Show the main job on this machine: two tenants flood, a light one hardly notices, runs finish early."""
    with mistakes():
        interrupt_on_terminate()
        documents = load_manifest(file or [Path("examples/llmapp.yaml")])
        traced = load_trace(trace)
        session = Session(state_directory())
        try:
            with session.exclusive():
                runtime = ensure_engine(progress)
                ports = Ports(*free_ports(3))
                with LocalPool(
                    documents,
                    session.directory,
                    runtime,
                    find_model(model),
                    ports,
                    progress,
                    engine_arguments=ENGINE_ARGUMENTS,
                ) as pool:
                    pool.start(lambda pids: session.write(pids, ready=False))
                    demo = Demo(pool, documents, traced, seed, SHORT if short else 1.0)
                    results, findings = demo.run()
        except EngineSetupError as error:
            fail(str(error))
        except KeyboardInterrupt:
            progress("interrupted: all that was started has ended")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        report = _write(out, results, findings)
    _tell(results, findings, report)
    if failed := Counter(request.status for r in results for request in r.requests if request.status != FINISHED):
        kinds = ", ".join(f"{count} {status}" for status, count in failed.most_common())
        fail(f"{failed.total()} requests did not finish ({kinds}): {out / 'requests.jsonl'} has each")


class Demo:
    """The phases in order: the engine's speed, the light tenant alone, then the load under each policy."""

    def __init__(
        self, pool: LocalPool, documents: Sequence[Document], trace: Sequence[TraceRequest], seed: int, part: float
    ) -> None:
        self._pool = pool
        self._documents = documents
        self._trace = trace
        self._seed = seed
        self._part = part
        keys = read_keys(documents)
        base_url = f"{pool.base_url}/applications/{pool.config.namespace}/{{application}}/v1"
        self._target = Target(base_url, model=pool.config.model, api_keys=keys, seed=seed)

    def run(self) -> tuple[list[PolicyResults], list[Finding]]:
        with Live(console=output, refresh_per_second=4) as live:
            speed = self._calibrate(live)
            queue = self._pool.config.queue.maximum_requests
            plan = plan_load(self._trace, speed, self._part, queue, self._seed)
            runs = contended_runs(self._trace, plan, self._seed)
            alone = self._measure(live, "tiered-justitia", [light_run_alone(runs)], f"{LIGHT} alone")
            results = [self._measure(live, label, runs) for label in POLICIES]
            gate = self._pool.status()["gate"]
        bound = share_bound(gate["slack"], gate["inEngine"], results[-1].weights)
        findings = find(first_token_times(alone.requests, LIGHT), results, REQUIRED_PART * plan.seconds, bound)
        return results, findings

    def _calibrate(self, live: Live) -> float:
        """The engine's speed under a short flood, once it is warm, in weighted tokens a second."""
        for phase, work in (("warming up", WARM_UP_WORK), ("calibrating", CALIBRATION_WORK)):
            flood = flooding_runs(self._trace, work, 0.5, self._seed)
            results = self._measure(live, "fcfs", flood, phase)
        return steady_rate(results.requests)

    def _measure(self, live: Live, label: str, runs: Sequence[WorkloadRun], phase: str | None = None) -> PolicyResults:
        """Replay runs under a policy, with a sidecar that remembers nothing and an engine that orders by the policy."""
        name = phase or POLICIES[label].value
        self._pool.stop_sidecar()
        self._pool.apply(with_policy(self._documents, POLICIES[label]))
        self._pool.start_sidecar()
        self._pool.await_policy()

        def show(status: dict[str, Any] | None, done: str) -> None:
            live.update(live_table(f"{name}   {done}", PoolStatus.model_validate(status) if status else None))

        target = replace(self._target, policy=label)
        results = asyncio.run(DemoPhase(self._pool, target, runs, show).measure())
        self._pool.check()
        return results


def with_policy(documents: Sequence[Document], policy: PolicyName) -> list[Document]:
    """The same documents, with each pool under that policy."""
    changed = copy.deepcopy(list(documents))
    for document in changed:
        spec = document.get("spec", {})
        pool = spec if document["kind"] == "ServingPool" else spec.get("pool")
        if pool is not None:
            pool.setdefault("scheduling", {})["policy"] = policy.value
    return changed


def _write(out: Path, results: Sequence[PolicyResults], findings: Sequence[Finding]) -> Path:
    noted = [replace(r, conditions={**r.conditions, "kv_tokens": KV_BLOCKS * BLOCK_SIZE}) for r in results]
    out.mkdir(parents=True, exist_ok=True)
    write_results(out, noted)
    report = out / "report.html"
    statements = [(f.statement, f.measured, "yes" if f.holds else "no") for f in findings]
    write_bytes(report, build_report(noted, "Three policies, one engine, the same load", statements).encode())
    return report


def _tell(results: Sequence[PolicyResults], findings: Sequence[Finding], report: Path) -> None:
    print_summary(results)
    for finding in findings:
        mark = "[green]yes[/]" if finding.holds else "[red]no [/]"
        output.print(f"{mark} {finding.statement}: {finding.measured}", highlight=False, soft_wrap=True)
    output.print(f"Report in {report}")
