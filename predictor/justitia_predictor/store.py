"""Where samples and artifacts outlive the pods: a folder of a volume, or a bucket of any S3-compatible service.

    {application}/samples/{name}       batches, named so that their order is that of time
    {application}/artifacts/{digest}

`application` is a name that no other application ever has had: what is learned from a tenant's runs goes nowhere else.
Nothing is written over: objects come, are read, and are deleted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from justitia_predictor.artifact import MOST_BYTES, Artifact, ArtifactError, digest
from justitia_predictor.sample import BatchError, Sample, from_batch, to_batch


class StoreError(Exception):
    """The store does not do what was asked of it: it is away, full, or forbids it."""


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise StoreError(f"{url}: {str(error).splitlines()[0]}") from error


class Store:
    """`url`: `file:///folder` or `s3://bucket/prefix`. For a bucket, keys, region and endpoint are those of the
    environment (`AWS_…`). Raises StoreError.
    """

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        with _errors(url):
            if scheme == "file":
                self._store: Any = LocalStore(rest, mkdir=True)
            elif scheme == "s3":
                self._store = from_url(url)
            else:
                raise StoreError(f"the store {url!r} is neither file:///folder nor s3://bucket/prefix")
        self.url = url

    def put_samples(self, application: str, name: str, samples: list[Sample]) -> None:
        """Raises StoreError."""
        with _errors(self.url):
            obstore.put(self._store, f"{application}/samples/{name}", to_batch(samples))

    def samples(self, application: str, most: int) -> tuple[list[Sample], int]:
        """The newest, oldest first, and the number of batches that could not be read. Raises StoreError."""
        found: list[list[Sample]] = []
        count = unreadable = 0
        for path in sorted(self._paths(f"{application}/samples"), reverse=True):
            if count >= most:
                break
            try:
                batch = from_batch(self._get(path))
            except BatchError:
                unreadable += 1
                continue
            count += len(batch)
            found.append(batch)
        return [sample for batch in reversed(found) for sample in batch][-most:], unreadable

    def put_artifact(self, artifact: Artifact) -> str:
        """Its digest. Raises StoreError."""
        content = artifact.to_bytes()
        name = digest(content)
        with _errors(self.url):
            obstore.put(self._store, f"{artifact.about.application}/artifacts/{name}", content)
        return name

    def artifact(self, application: str, name: str) -> Artifact:
        """By its digest. Raises StoreError and ArtifactError."""
        content = self._get(f"{application}/artifacts/{name}")
        if digest(content) != name:
            raise ArtifactError(f"the artifact {name[:12]} is damaged: its content has another digest")
        return Artifact.from_bytes(content)

    def erase(self, application: str) -> int:
        """All of an application; tells how many objects that were. Raises StoreError."""
        paths = list(self._paths(application))
        with _errors(self.url):
            for path in paths:
                obstore.delete(self._store, path)
        return len(paths)

    def erase_samples_before(self, application: str, name: str) -> None:
        """Batches whose names come before this one. Raises StoreError."""
        with _errors(self.url):
            for path in self._paths(f"{application}/samples"):
                if path.rpartition("/")[2] < name:
                    obstore.delete(self._store, path)

    def _paths(self, prefix: str) -> Iterator[str]:
        with _errors(self.url):
            for page in obstore.list(self._store, f"{prefix}/"):
                for each in page:
                    yield each["path"]

    def _get(self, path: str) -> bytes:
        with _errors(self.url):
            result = obstore.get(self._store, path)
            if result.meta["size"] > 2 * MOST_BYTES:
                raise StoreError(f"{self.url}: {path} is larger than anything that was written there")
            return bytes(result.bytes())
