"""Monitors, alert rules and dashboards: they are there when asked for, and ask for what there is."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import yaml

from chart.helm import CHART, rendered
from chart.promql import POOL_LABELS, TARGET_LABELS, exposed, unknown

SWITCHES = ("podMonitors", "alertRules", "dashboards")
DASHBOARDS = {file.stem: json.loads(file.read_text()) for file in (CHART / "files" / "dashboards").iterdir()}
GRAFANAS_OWN = {"__rate_interval": "5m", "__range": "1h"}
every_dashboard = pytest.mark.parametrize("board", DASHBOARDS.values(), ids=DASHBOARDS.keys())


def monitoring() -> dict[str, list[dict[str, Any]]]:
    """What the switches add, by kind."""
    plain = rendered()
    more = [d for d in rendered(*(f"--set=metrics.{switch}=true" for switch in SWITCHES)) if d not in plain]
    return {kind: [d for d in more if d["kind"] == kind] for kind in {d["kind"] for d in more}}


def test_each_switch_adds_its_objects() -> None:
    counts = {kind: len(objects) for kind, objects in monitoring().items()}
    assert counts == {"PodMonitor": 2, "PrometheusRule": 1, "ConfigMap": len(DASHBOARDS)}


def test_monitors_scrape_the_ports_that_there_are() -> None:
    ports = {d["spec"]["podMetricsEndpoints"][0]["port"] for d in monitoring()["PodMonitor"]}
    (operator,) = (d for d in rendered() if d["kind"] == "Deployment")
    assert "http" in {p["name"] for p in operator["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert ports == {"http", "admin"}


def test_what_the_pools_monitor_scrapes_says_of_which_pool_it_is() -> None:
    (pools,) = (d for d in monitoring()["PodMonitor"] if d["metadata"]["name"].endswith("-pools"))
    labels = {re.sub(r"\W", "_", label) for label in pools["spec"]["podTargetLabels"]}
    assert labels == POOL_LABELS - TARGET_LABELS


def test_grafanas_sidecar_finds_every_dashboard_as_it_is() -> None:
    found = monitoring()["ConfigMap"]
    assert {d["metadata"]["labels"]["grafana_dashboard"] for d in found} == {"1"}
    contents = {name: json.loads(text) for d in found for name, text in d["data"].items()}
    assert contents == {f"justitia-{name}.json": board for name, board in DASHBOARDS.items()}


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("sum by (pool) (justitia_engine_ready)", {"pool"}),
        ("justitia_engine_alive > 0", {"justitia_engine_alive"}),
        ('justitia_tenant_share{application="x"} / on (pod, tier) justitia_engine_ready', {"tier"}),
        ('rate(justitia_tenant_share{application="x"}[5m])', {"justitia_tenant_share{application}"}),
        ("rate(justitia_requests[5m])", {"justitia_requests"}),
    ],
)
def test_an_expression_that_asks_for_what_is_not_there_is_found_out(expression: str, complaint: set[str]) -> None:
    assert complaint <= unknown(expression, exposed())


def test_alerts_ask_for_what_there_is() -> None:
    rules, there = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text()), exposed()
    assert {rule["alert"]: found for rule in rules if (found := unknown(rule["expr"], there))} == {}
    for rule in rules:
        assert rule["annotations"].keys() == {"summary", "description"}
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= _labels_asked(rule["expr"])


def _labels_asked(expression: str) -> set[str]:
    names = re.findall(r"justitia_\w+", expression)
    return set().union(*(labels for name, labels in exposed().items() if name in names))


def queries(board: dict[str, Any]) -> Iterator[str]:
    """Its PromQL, with what Grafana puts in for its own variables."""
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield re.sub(r"\$(\w+)", lambda found: GRAFANAS_OWN.get(found[1], found[0]), target["expr"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert asked is not None
            yield f"group by ({asked[2]}) ({asked[1]})"


@every_dashboard
def test_a_dashboard_asks_for_what_there_is(board: dict[str, Any]) -> None:
    there = exposed()
    assert {query: found for query in queries(board) if (found := unknown(query, there))} == {}


@every_dashboard
def test_a_dashboards_legends_name_labels_that_its_series_keep(board: dict[str, Any]) -> None:
    for target in (target for panel in board["panels"] for target in panel.get("targets", ())):
        named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        kept = [set(labels.split(", ")) for labels in re.findall(r" by \(([^)]*)\)", target["expr"])]
        assert all(named <= labels for labels in kept), target["expr"]


@every_dashboard
def test_a_dashboard_uses_the_variables_that_it_has(board: dict[str, Any]) -> None:
    variables = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\${?(\w+)", json.dumps(board))) - GRAFANAS_OWN.keys() - {"__all"}
    assert used == variables
    assert {"datasource", "namespace"} <= variables


@every_dashboard
def test_a_dashboards_panels_say_what_they_show_and_lie_beside_each_other(board: dict[str, Any]) -> None:
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
