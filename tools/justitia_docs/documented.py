"""Documentation strings that stand below the members of an enum, which Python itself does not keep."""

import ast
import inspect
import textwrap
from enum import Enum


def documented(kind: type[Enum]) -> dict[str, str]:
    """The string below each member, by the member's value, in the order of the source. Raises ValueError for a member
    without one.
    """
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, following in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            member = kind[statement.targets[0].id]
            found[member.value] = _string(following, f"{kind.__name__}.{member.name}")
    return found


def _string(statement: ast.stmt | None, name: str) -> str:
    if (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(text := statement.value.value, str)
    ):
        return " ".join(text.split())
    raise ValueError(f"{name} has no documentation string: write one below it, it is shown in the reference")
