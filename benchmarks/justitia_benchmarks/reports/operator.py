"""What the operator takes for many applications."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from justitia_benchmarks.document import table
from justitia_benchmarks.operator.population import Size
from justitia_benchmarks.speed import machine
from justitia_benchmarks.statistics import digits
from justitia_simulator.files import write_bytes
from justitia_vocabulary.units import Seconds

MIB = 2**20

HOW = """Written by `make bench-operator`. etcd, API server, controller manager, kube-scheduler and operator are real
and share the machine with the benchmark itself; nodes and pods are simulated by kwok, and each pod has the control port
of a real sidecar at its address. Tenants have ten applications in a namespace of their own, on ten pools of the
platform's. Each repetition has a cluster of its own: mean and, in brackets, the least and the largest. What an operator
writes that is started anew are the pools' Secrets, which it may not read: applying them changes nothing."""

HEADS = ("what", "measured", "wanted", "reached")


def write_document(size: Size, quiet: Seconds, found: Sequence[Mapping[str, float]], folder: Path) -> Path:
    """`operator.md` in the folder."""

    def row(what: str, name: str, unit: str = "", per: float = 1.0, at_most: float | None = None) -> list[str]:
        values = [figures[name] / per for figures in found]
        mean = sum(values) / len(values)
        said = f"{digits(mean)}{unit} ({digits(min(values))} to {digits(max(values))})"
        if at_most is None:
            return [what, said, "", ""]
        return [what, said, f"≤ {at_most:g}{unit}", "yes" if max(values) <= at_most else "**no**"]

    rows = [
        row("all applied", "applied", " s"),
        row("all applications Ready, all pods programmed", "converged", " s", at_most=60),
        row("processor time of the operator for it", "convergeCpu", " s"),
        row("objects written for it", "convergeWrites"),
        row("reconciles for it", "convergeReconciles"),
        row("faults on the way", "convergeFaults"),
        row("a changed weight is in effect in every pod, mean", "meanChange", " s"),
        row("the slowest of ten", "slowestChange", " s", at_most=5),
        row("memory at most", "peakMemory", " MiB", MIB, at_most=256),
        row("memory in silence", "quietMemory", " MiB", MIB),
        row("processor in silence", "quietCores", " % of a core", 0.01, at_most=1),
        row("objects written in silence", "quietWrites", at_most=0),
        row("an operator started anew has looked at everything", "restarted", " s"),
        row("its processor time for it", "restartCpu", " s"),
        row("objects written by it", "restartWrites"),
        row("its memory at most", "restartPeakMemory", " MiB", MIB, at_most=256),
    ]
    text = [
        "# The operator with many applications",
        HOW,
        f"{size.applications:,} LLMApplications, {size.tenants} Tenants, {size.pools} ServingPools; {len(found)} "
        f"repetitions, silence for {quiet:.0f} s.",
        machine(),
        table(HEADS, rows),
    ]
    path = folder / "operator.md"
    write_bytes(path, "\n\n".join(text).encode() + b"\n")
    return path
