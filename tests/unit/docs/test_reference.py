"""The reference has what the code has."""

from enum import Enum
from typing import Any

import pytest

from justitia_api.conditions import ConditionType, Reason
from justitia_api.crd import build_definitions
from justitia_api.wire import Refusal
from justitia_docs.documented import documented
from justitia_docs.hooks import build_reference
from justitia_docs.markdown import cell, prose
from justitia_operator.runtime.metrics import Fault

PAGES = build_reference()
DEFINITIONS = {each["spec"]["names"]["singular"]: each for each in build_definitions()}


def rows(page: str) -> list[list[str]]:
    """The cells of all tables of a page."""
    lines = PAGES[f"reference/{page}.md"].splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]


def row(page: str, name: str) -> list[str]:
    (found,) = (cells for cells in rows(page) if cells[0] == f"`{name}`")
    return found


def properties(schema: Any) -> int:
    """How many fields the schema has at any depth."""
    inner = [*schema.get("properties", {}).values(), *(schema[key] for key in ("items",) if key in schema)]
    if isinstance(schema.get("additionalProperties"), dict):
        inner.append(schema["additionalProperties"])
    return len(schema.get("properties", {})) + sum(properties(each) for each in inner)


@pytest.mark.parametrize("kind", ["tenant", "servingpool"])
def test_every_field_at_any_depth_has_a_row(kind: str) -> None:
    schema = DEFINITIONS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert len(rows(kind)) == properties(schema["spec"]) + properties(schema["status"])


def test_a_field_says_its_type_default_limits_and_description() -> None:
    (found,) = (cells for cells in rows("servingpool") if cells[0] == "`hangSeconds`")
    assert found[1] == "integer<br>default `120`<br>at least 10<br>at most 86,400"
    assert "seconds" in found[2]
    (policy,) = (cells for cells in rows("servingpool") if cells[0] == "`policy`")
    assert policy[1].startswith("string<br>default `TieredJustitia`<br>one of `FCFS`, `VTC`")


def test_an_applications_own_pool_refers_to_the_pools_page_instead_of_repeating_it() -> None:
    (found,) = (cells for cells in rows("llmapplication") if cells[0] == "`pool`" and "ServingPool" in cells[1])
    assert found[1].startswith("as [`spec` of ServingPool](servingpool.md#spec)")
    assert "hangSeconds" not in PAGES["reference/llmapplication.md"]


def test_every_condition_and_reason_is_explained() -> None:
    assert [cells[0] for cells in rows("conditions")] == [f"`{each.value}`" for each in (*ConditionType, *Reason)]
    assert all(cells[1] for cells in rows("conditions"))


def test_a_refusal_says_its_status_its_type_and_what_to_do() -> None:
    assert row("refusals", "queue_full")[1:4] == ["429 Too Many Requests", "`rate_limit_error`", "yes"]
    assert row("refusals", "invalid_api_key")[1:4] == ["401 Unauthorized", "`authentication_error`", "no"]
    assert {cells[0] for cells in rows("refusals")} == {f"`{each.value}`" for each in Refusal}


@pytest.mark.parametrize(
    ("metric", "kind", "labels"),
    [
        ("justitia_requests_total", "counter", "`tenant`, `application`, `outcome`"),
        ("justitia_completion_seconds", "histogram", "`tenant`, `application`"),
        ("justitia_engine_gamma", "gauge", ""),
        ("justitia_tenant_kv_token_time_total", "counter", "`tenant`"),
        ("justitia_channel_lag_seconds", "summary", ""),
        ("justitia_operator_faults_total", "counter", "`kind`, `fault`"),
    ],
)
def test_a_metric_of_each_part_says_its_type_and_labels(metric: str, kind: str, labels: str) -> None:
    assert row("metrics", metric)[1:3] == [kind, labels]


def test_the_values_of_a_fault_are_explained() -> None:
    assert {f"`{each.value}`" for each in Fault} <= {cells[0] for cells in rows("metrics")}


class Undocumented(Enum):
    EXPLAINED = 1
    """Here."""
    FORGOTTEN = 2


def test_a_member_without_a_documentation_string_is_found_out() -> None:
    with pytest.raises(ValueError, match=r"Undocumented\.FORGOTTEN"):
        documented(Undocumented)


def test_text_of_a_cell_is_shown_as_it_is() -> None:
    assert cell("a|b <c> [d] *e*") == r"a\|b &lt;c> \[d\] \*e\*"
    assert prose("one `two|three` four_five") == r"one `two|three` four\_five"
