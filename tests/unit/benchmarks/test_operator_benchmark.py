"""What the operator's benchmark applies, and what its document says is reached."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from justitia_benchmarks.operator.population import Size, namespaces, resources
from justitia_benchmarks.reports.operator import write_document
from justitia_operator.decide.reconcile import mistakes, reconcile_all
from justitia_operator.world.installation import Installation
from justitia_operator.world.snapshot import build_snapshot
from support.resources import NOW, ROOT

SIZE = Size(tenants=20, pools=10, applications=100)
FIGURES = dict.fromkeys(
    (
        *(
            "applied",
            "converged",
            "convergeCpu",
            "convergeWrites",
            "convergeReconciles",
            "convergeFaults",
            "meanChange",
        ),
        *("slowestChange", "peakMemory", "quietMemory", "quietCores", "quietWrites", "restarted", "restartCpu"),
        *("restartWrites", "restartPeakMemory"),
    ),
    0.0,
)


def test_the_population_has_its_size_is_spread_and_has_no_mistakes() -> None:
    objects = [*namespaces(SIZE), *resources(SIZE)]
    kinds = Counter(obj["kind"] for obj in objects)
    assert kinds == {"Namespace": 21, "Secret": 20, "Tenant": 20, "ServingPool": 10, "LLMApplication": 100}
    pools = {
        (obj["spec"]["tenantRef"]["name"], obj["spec"]["poolRef"]["name"])
        for obj in objects
        if obj["kind"] == "LLMApplication"
    }
    assert Counter(Counter(tenant for tenant, _ in pools).values()) == {2: 20}
    assert set(Counter(pool for _, pool in pools)) == {f"pool-{number:02}" for number in range(10)}
    world = build_snapshot(objects, Installation("justitia-system", "justitia:test", ROOT))
    assert mistakes(reconcile_all(world, NOW)) == ()


@pytest.mark.parametrize(("worst", "verdict"), [(60.0, "yes"), (60.1, "**no**")])
def test_the_document_holds_targets_against_the_worst_repetition(tmp_path: Path, worst: float, verdict: str) -> None:
    found: list[Mapping[str, float]] = [FIGURES | {"converged": 10.0}, FIGURES | {"converged": worst}]
    text = write_document(SIZE, 300.0, found, tmp_path).read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| all applications Ready"))
    assert row.endswith(f"| ≤ 60 s | {verdict} |")
