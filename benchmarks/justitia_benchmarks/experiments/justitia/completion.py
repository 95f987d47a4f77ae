"""Figures 7, 8 and 11: completion times against the baselines, who finishes later than under VTC, compute as cost.

Predictions are true, so that the order is compared and not the predictor. `not_later` counts ratios up to 1, as the
paper does; `not_late` those runs whose JCT exceeds the one under VTC by at most 10 % or 2 s, the larger of the two.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.justitia.serving import MODELS, WINDOWS, jcts, serve, suite
from justitia_benchmarks.reports.justitia import report_completion
from justitia_benchmarks.statistics import quantile
from justitia_simulator.prediction import TRUE
from justitia_simulator.summary import largest_decile

POLICIES = ("fcfs", "sjf", "parrot", "vtc", "srjf", "justitia", "justitia-c", "tiered-justitia")


class CompletionTime:
    """Each cell serves one workload under every policy, so that ratios to VTC are known run by run."""

    name = "justitia-completion"
    title = "Completion time of runs against the paper's baselines"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count, models = (2, 100, ("7B-A10G",)) if quick else (20, 300, tuple(MODELS))
        return [
            Cell({"model": model, "density": density, "runs": count}, seed)
            for seed in range(seeds) for model in models for density in WINDOWS
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        workload = suite(cell.seed, str(p["density"]), int(p["runs"]))
        results = {policy: serve(policy, workload, TRUE, str(p["model"])) for policy in POLICIES}
        vtc = jcts(results["vtc"])
        figures: dict[str, Mapping[str, object]] = {}
        for policy, served in results.items():
            own = jcts(served)
            ratios = sorted(own[run] / vtc[run] for run in own)
            late = [run for run in own if own[run] > vtc[run] + max(0.1 * vtc[run], 2.0)]
            large = [run.jct for run in largest_decile(served.runs) if run.jct is not None]
            figures[policy] = {
                "mean": sum(own.values()) / len(own),
                "p90": quantile(list(own.values()), 0.9),
                "largest_decile": sum(large) / len(large),
                "not_later": sum(r <= 1 + 1e-9 for r in ratios) / len(ratios),
                "not_late": 1 - len(late) / len(own),
                "worst": ratios[-1],
                "ratios": [round(quantile(ratios, q / 100), 4) for q in range(101)],
            }
        return figures

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_completion(rows, folder)
