"""Gamma in the status of a pool, with one digit.

A recorded number stays until gamma is so far away that even 15 % less or more would not be rounded to it. Otherwise
gamma at an edge would be written again with each move.
"""

from collections.abc import Iterable
from decimal import Decimal

from pydantic import ValidationError

from justitia_api.pool import GammaRange
from justitia_operator.world.objects import Json
from justitia_operator.world.sidecars import Reporting

SLACK = 1.15


def gamma_range(reports: Iterable[Reporting], obj: Json) -> Json | None:
    """The range of gamma over all pods of the pool. None if no pod has one."""
    gammas = [report.boost.gamma for _, report in reports if report is not None and report.boost is not None]
    if not gammas:
        return None
    before = _recorded(obj)
    found = GammaRange(
        lowest=_steady(min(gammas), None if before is None else before.lowest),
        highest=_steady(max(gammas), None if before is None else before.highest),
    )
    return found.model_dump(by_alias=True)


def _recorded(obj: Json) -> GammaRange | None:
    try:
        return GammaRange.model_validate((obj.get("status") or {}).get("gamma"))
    except ValidationError:
        return None


def _steady(gamma: float, before: str | None) -> str:
    near = {_one_digit(gamma / SLACK), _one_digit(gamma * SLACK)}
    return before if before in near else _one_digit(gamma)


def _one_digit(gamma: float) -> str:
    return format(Decimal(f"{gamma:.0e}"), "f")
