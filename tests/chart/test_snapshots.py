"""What the chart becomes, whole, for the main switches. Definitions and dashboards are left out: others test those."""

from pathlib import Path

import pytest

from chart.helm import CHART, helm
from chart.switches import SWITCHES

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("name", SWITCHES)
def test_the_chart_becomes_what_it_became(name: str, renewing: bool) -> None:
    given = ("--namespace", "justitia-system", "--set", "crds.enabled=false", *SWITCHES[name])
    answer = helm("template", "justitia", str(CHART), *given)
    assert answer.returncode == 0, answer.stderr
    file = SNAPSHOTS / f"{name}.yaml"
    if renewing:
        file.write_text(answer.stdout)
    assert answer.stdout == file.read_text(), "look at the difference; `pytest tests/chart --renew-snapshots` takes it"
