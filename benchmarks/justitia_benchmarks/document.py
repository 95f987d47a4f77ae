"""The document of a reproduction: one table of claims, then each experiment's plots and tables.

Everything in its folder is generated: by this module, by the experiments' reports, and the table of decision times by
:mod:`justitia_benchmarks.speed`.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from justitia_benchmarks.experiment import Claim, Experiment
from justitia_benchmarks.runner import ExperimentOutcome
from justitia_benchmarks.statistics import Estimate
from justitia_simulator.files import write_bytes

PAPERS = {
    "justitia": "Justitia (task-parallel LLM agents)",
    "vtc": "VTC (fairness in serving LLMs)",
    "tail-aware": "UniBoost (tail-aware scheduling)",
    "ours": "This project's own",
}
COLUMNS = ("claim", "the paper's figure", "ours", "verdict", "why")
HOW_TO_READ = """Written by `{command}`. Nothing here is edited by hand.

How to read it. The tables of claims come first: what a paper says (or this project), the paper's figure, ours, a
verdict, and why. Ours is the mean over n seeds and, in brackets, its 95 % confidence interval (Student's t; of a ratio
the geometric mean of the paired ratios, t on their logarithms). A ratio compares policies on the same workloads, seed
by seed; −58 % means a ratio of 0.42. The verdict is

- **beaten**: the whole interval is better than the paper's figure;
- **reached**: the mean is at least as good. Where the paper has words and no figure, `why` says what is taken for them;
- **not reached**: the mean is worse;
- **not comparable**: measured under conditions that differ too much.

Below, each experiment says what it varies and has its plots and tables. All of it is simulation except CPU times."""


def write_document(outcomes: Sequence[ExperimentOutcome], folder: Path, *, command: str, note: str = "") -> Path:
    """Write `README.md` and a folder per experiment, in place of those that were there. `note` comes first, `command`
    is what writes it again. A folder that has a `README.md` is another document, and stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.iterdir():
        if earlier.is_dir() and not (earlier / "README.md").exists():
            shutil.rmtree(earlier)
    claims: list[tuple[Experiment, Claim]] = []
    sections: list[str] = []
    for outcome in outcomes:
        experiment = outcome.experiment
        own = folder / experiment.name
        own.mkdir(parents=True)
        if outcome.failures:
            sections.append(_section(experiment, f"No report: {len(outcome.failures)} of its cells failed."))
            continue
        claims += [(experiment, claim) for claim in experiment.report(outcome.rows, own)]
        sections.append(_section(experiment, _content(own, outcome)))
    path = folder / "README.md"
    parts = [
        "# Results",
        *([note] if note else []),
        HOW_TO_READ.format(command=command),
        _claims(claims),
        *sections,
    ]
    write_bytes(path, "\n\n".join(parts).encode() + b"\n")
    return path


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table; a report's tables appear in the order of their file names."""
    write_bytes(path, table(columns, rows).encode() + b"\n")


def _claims(claims: Sequence[tuple[Experiment, Claim]]) -> str:
    parts = ["## Claims"]
    for paper, title in PAPERS.items():
        rows = [
            claim_row(replace(claim, claim=f"{claim.claim} ([{experiment.name}](#{experiment.name}))"))
            for experiment, claim in claims
            if experiment.paper == paper
        ]
        if rows:
            parts += [f"### {title}", table(COLUMNS, rows)]
    return "\n\n".join(parts)


def claim_row(claim: Claim) -> list[str]:
    """In the order of `COLUMNS`."""
    ours = claim.ours.text if isinstance(claim.ours, Estimate) else claim.ours
    return [claim.claim, claim.paper, ours, claim.verdict.value, claim.why]


def _section(experiment: Experiment, content: str) -> str:
    return f'## {experiment.title}\n\n<a id="{experiment.name}"></a>\n\n{content}'


def _content(folder: Path, outcome: ExperimentOutcome) -> str:
    seeds = {cell.seed for cell, _ in outcome.rows}
    parts = [f"`{outcome.experiment.name}`: {len(outcome.rows)} cells, {len(seeds)} seeds."]
    for path in sorted(folder.iterdir()):
        if path.suffix == ".md":
            parts.append(path.read_text(encoding="utf-8").strip())
        elif path.suffix in {".svg", ".png"}:
            parts.append(f"![{path.stem}]({folder.name}/{path.name})")
    return "\n\n".join(parts)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown, without a last newline."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
