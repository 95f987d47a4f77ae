"""Reference of conditions and their reasons, from the strings beside their names."""

from justitia_api.conditions import ConditionType, Reason
from justitia_docs.documented import documented
from justitia_docs.markdown import code, prose, table

OPENING = """\
# Conditions and reasons

The `status` of each resource has conditions. Every condition is `True`, `False` or `Unknown`, and has a reason, a
message for people, and the generation of the resource that it was computed from. `kubectl describe` shows all of them.
"""


def build_page() -> str:
    return "\n".join(
        [
            OPENING,
            "## Conditions\n",
            table(("condition", "True means"), _rows(documented(ConditionType))),
            "## Reasons\n",
            table(("reason", "meaning"), _rows(documented(Reason))),
        ]
    )


def _rows(found: dict[str, str]) -> list[tuple[str, str]]:
    return [(code(name), prose(text)) for name, text in found.items()]
