"""The document of `make bench-adversaries`."""

from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.adversaries.measure import AttackPhase, growth, quantile
from justitia_benchmarks.document import table
from justitia_benchmarks.speed import machine
from justitia_benchmarks.statistics import digits
from justitia_simulator.files import write_bytes

WANTED = 1.5
"""P99 beside adversaries divided by P99 beside a polite neighbour, at most."""


def write_document(phases: Sequence[AttackPhase], enforcement: str, folder: Path) -> Path:
    """`phases`: before, attacked, after."""
    before, attacked, after = phases
    calm = [*before.completion, *after.completion], [*before.first_token, *after.first_token]
    ratios = (
        quantile(attacked.completion, 0.99) / quantile(calm[0], 0.99),
        quantile(attacked.first_token, 0.99) / quantile(calm[1], 0.99),
    )
    rows = [
        [
            phase.name,
            digits(phase.seconds),
            str(len(phase.completion)),
            str(len(phase.failures)),
            *(digits(quantile(values, q)) for values in (phase.first_token, phase.completion) for q in (0.5, 0.99)),
            digits(max(phase.memory)),
            digits(growth(phase.memory)),
        ]
        for phase in phases
    ]
    columns = ["phase", "s", "answered", "refused or failed", "first token P50, s", "P99", "completion P50, s", "P99"]
    verdict = "reached" if max(ratios) <= WANTED and not attacked.failures else "not reached"
    parts = [
        "# A paying tenant beside adversaries",
        f"Written by `make bench-adversaries`. {machine()}",
        f"A real vLLM on a CPU with a random model, `enforcement: {enforcement}`, default queue. The payer has "
        "twice the adversaries' weight. Before and after, the adversaries' key is a polite neighbour's who keeps the "
        "engine full. Meanwhile all adversaries act at once, on processor time that nobody else wants.",
        f"P99 beside adversaries ÷ beside the neighbour: completion {digits(ratios[0])}, first token "
        f"{digits(ratios[1])}; wanted at most {WANTED:g} and nothing refused: {verdict}.",
        table([*columns, "scheduler's memory, MiB", "its last third ÷ middle third"], rows),
        "## What the adversaries were told",
        table(["attack: answer", "times"], [[name, str(count)] for name, count in attacked.answers.items()]),
    ]
    if attacked.failures:
        parts += ["## What the payer was refused", "\n".join(f"- {each}" for each in attacked.failures[:20])]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "adversaries.md"
    write_bytes(path, "\n\n".join(parts).encode() + b"\n")
    return path
