"""The hash of its own content that an applied object carries. It shows what was asked for."""

import hashlib
import json

from justitia_operator.world.objects import APPLIED_HASH_ANNOTATION, Json


def content_hash(content: Json) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sealed(desired: Json) -> Json:
    """Adds the hash of the object's content as an annotation."""
    metadata = desired["metadata"]
    annotations = metadata.get("annotations", {}) | {APPLIED_HASH_ANNOTATION: content_hash(desired)}
    return desired | {"metadata": metadata | {"annotations": annotations}}
