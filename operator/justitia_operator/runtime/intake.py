"""Which parts of an object from the API server are kept.

A status is computed. It is an input only for little: since when a condition holds, and what was recorded. A status that
was stored under another definition, or written by somebody else, need not fit the present one. A field that does not
fit is left out, and so it is written again.
"""

import json

from pydantic import ValidationError

from justitia_api.application import LLMApplicationStatus
from justitia_api.pool import ServingPoolStatus
from justitia_api.resource import ResourceStatus
from justitia_api.tenant import TenantStatus
from justitia_operator.world.objects import Json, Kind, ref_of

_STATUSES: dict[Kind, type[ResourceStatus]] = {
    Kind.TENANT: TenantStatus,
    Kind.SERVING_POOL: ServingPoolStatus,
    Kind.LLM_APPLICATION: LLMApplicationStatus,
}


def readable(obj: Json) -> Json:
    """Returns the object without fields of its status that do not fit the definition."""
    type_, status = _STATUSES.get(ref_of(obj).kind), obj.get("status")
    if type_ is None or status is None:
        return obj
    try:
        type_.model_validate_json(json.dumps(status), strict=True)
    except ValidationError as error:
        spoilt = {each["loc"][0] for each in error.errors() if each["loc"]}
        kept = {name: value for name, value in status.items() if name not in spoilt} if spoilt else {}
        return obj | {"status": kept}
    return obj
