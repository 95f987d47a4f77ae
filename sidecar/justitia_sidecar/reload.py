"""Reads the documents on disk, and decides which of them may take effect.

A document that cannot be read or is not valid leaves the old one in effect. The configuration with the higher
generation wins; one of the same generation with other content is taken, an older one is not. Fields that only a later
release knows are left out.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from justitia_api.config import Document, PoolConfig, SchedulingConfig

D = TypeVar("D", bound=Document)


class InvalidDocumentError(Exception):
    """A file holds a document that cannot take effect. The message names file, field and reason, and no values."""


@dataclass(slots=True)
class WatchedDocument(Generic[D]):
    """A file that is watched. `poll` returns its document when the content is new; `content` is the JSON."""

    path: Path
    kind: type[D]
    content: object = None
    _stat: tuple[int, int, int] | None = None
    _digest: bytes | None = None

    def poll(self) -> D | None:
        """The document, or None if nothing has changed. Raises InvalidDocumentError once for each invalid content."""
        try:
            stat = self.path.stat()  # follows the symbolic links by which a ConfigMap's files are replaced
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen == self._stat:
                return None
            content = self.path.read_bytes()
        except OSError as error:
            if self._stat is None and self._digest == b"":
                return None
            self._stat, self._digest = None, b""
            raise InvalidDocumentError(f"{self.path}: cannot be read: {error.strerror}") from None
        self._stat = seen
        digest = hashlib.sha256(content).digest()
        if digest == self._digest:
            return None
        self._digest = digest
        try:
            document = self.kind.model_validate_json(content, extra="ignore")
        except ValidationError as error:
            raise InvalidDocumentError(f"{self.path}: {problem_of(error)}") from None
        self.content = json.loads(content)
        return document


def understood(given: object, before: SchedulingConfig) -> tuple[PoolConfig, str]:
    """A configuration, and why a part of it is not understood. An order of service that only a later release knows
    leaves the one `before`. Raises ValidationError if anything else is wrong.
    """
    try:
        return PoolConfig.model_validate(given, extra="ignore"), ""
    except ValidationError as error:
        if not isinstance(given, dict) or any(each["loc"][:1] != ("scheduling",) for each in error.errors()):
            raise
        problem = problem_of(error)
    known = {**given, "scheduling": before.model_dump()}
    return PoolConfig.model_validate(known, extra="ignore"), problem


def problem_of(error: ValidationError) -> str:
    """The first problem: field and reason, no values."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "document"
    return f"{where}: {first['msg']}"
