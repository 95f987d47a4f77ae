"""Reads the YAML that a cluster takes. An error names the file, the document and the field."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from justitia_api.application import LLMApplication
from justitia_api.pool import ServingPool
from justitia_api.resource import Resource
from justitia_api.tenant import Tenant
from justitia_cli.local.errors import LocalError

Document = dict[str, Any]

RESOURCES: dict[str, type[Resource]] = {"Tenant": Tenant, "ServingPool": ServingPool, "LLMApplication": LLMApplication}
PLAIN_KINDS = ("Namespace", "Secret")
DEFAULT_NAMESPACE = "default"


def load_manifest(paths: Iterable[Path]) -> list[Document]:
    """Load and check the documents that local mode knows. Raises LocalError for the first mistake."""
    documents = [document for path in paths for document in _load_file(path)]
    if not any(document["kind"] == "ServingPool" or "pool" in document.get("spec", {}) for document in documents):
        raise LocalError("the files define no ServingPool, and no LLMApplication with a pool of its own: add one")
    return documents


def _load_file(path: Path) -> list[Document]:
    try:
        parsed = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LocalError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        raise LocalError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    return [
        _checked(f"{path}, document {number}", document)
        for number, document in enumerate(parsed, start=1)
        if document is not None
    ]


def _checked(where: str, document: object) -> Document:
    if not isinstance(document, dict):
        raise LocalError(f"{where}: a document must be a mapping with apiVersion, kind and metadata")
    kind, metadata = document.get("kind"), document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise LocalError(f"{where} ({kind}): metadata.name is missing")
    where = f"{where} ({kind} {metadata['name']})"
    if kind in PLAIN_KINDS:
        return document
    if kind not in RESOURCES:
        known = ", ".join((*RESOURCES, *PLAIN_KINDS))
        raise LocalError(f"{where}: kind: local mode runs {known} only; move this document to another file")
    if kind != "Tenant":
        metadata.setdefault("namespace", DEFAULT_NAMESPACE)
    try:
        RESOURCES[kind].model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "document"
        raise LocalError(f"{where}: {field}: {first['msg']}") from error
    return document
