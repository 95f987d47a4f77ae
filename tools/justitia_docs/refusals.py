"""Reference of refusals: what a client gets instead of an answer, and what it can do."""

import json

from justitia_api.wire import Refusal
from justitia_docs.documented import documented
from justitia_docs.markdown import code, prose, table
from justitia_sidecar.refusals import RefusalError

OPENING = """\
# Refusals

A request that is refused gets an error body in OpenAI's format. `code` says why, for programs; `message` says it for
people, with what to do about it. The metric `justitia_refusals_total` counts refusals by the same code.

```json
{example}
```

Where the table says so, the header `Retry-After` has the seconds after which it is worth trying again.
"""


def build_page() -> str:
    example = RefusalError(
        Refusal.MODEL_NOT_FOUND, "This pool serves your tenant the model 'demo', not 'gpt'.", param="model"
    )
    return "\n".join(
        [
            OPENING.format(example=json.dumps(json.loads(example.body), indent=2)),
            table(("code", "status", "type", "`Retry-After`", "meaning and remedy"), _rows()),
        ]
    )


def _rows() -> list[tuple[str, ...]]:
    meanings = documented(Refusal)
    return [_row(refusal, meanings[refusal.value]) for refusal in Refusal]


def _row(refusal: Refusal, meaning: str) -> tuple[str, ...]:
    raised = RefusalError(refusal, "")
    status = f"{refusal.status.value} {refusal.status.phrase}"
    kind = json.loads(raised.body)["error"]["type"]
    retried = "yes" if any(name == b"retry-after" for name, _ in raised.headers) else "no"
    return code(refusal.value), status, code(kind), retried, prose(meaning)
