"""The store, in which samples and artifacts outlive the pods: a folder of a volume, or a bucket of any S3-compatible
service.

    {application}/samples/{name}       batches; names begin with the time and end with the number of samples
    {application}/artifacts/{digest}

`application` is a name that no other application ever had: what is learned from a tenant's runs is used nowhere else.
Objects are written once, read, and deleted.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from justitia_predictor.artifact import MOST_BYTES, Artifact, digest
from justitia_predictor.s3 import lacks_object, open_bucket, reason_of
from justitia_predictor.sample import BatchError, Sample, from_batch, to_batch
from justitia_vocabulary.units import Seconds


class StoreError(Exception):
    """A call to the store failed: it is away or full, or it forbids the call."""


class NotStoredError(StoreError):
    """The store works, and does not have the object."""


ERASED_AT_ONCE = 100
"""The most objects that one request to a bucket erases."""
_TIME = "020.6f"
"""The format of times in names, which puts names in the order of time."""


_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9.-]*")


def _part_of(application: str) -> str:
    """An application's part of the store. Raises StoreError if the name could mean more than one application."""
    if not _NAME.fullmatch(application):
        raise StoreError(f"{application!r} is no name of an application in a store")
    return application


def _samples_of(application: str) -> str:
    return f"{_part_of(application)}/samples"


def _artifacts_of(application: str) -> str:
    return f"{_part_of(application)}/artifacts"


def _batch_name(at: Seconds, source: str, samples: list[Sample]) -> str:
    return f"{at:{_TIME}}-{source}-{len(samples)}"


def _samples_in(name: str) -> int:
    """The number of samples in a batch, by its name; 0 if the name is not ours."""
    count = name.rpartition("-")[2]
    return int(count) if count.isdecimal() and len(count) < 8 else 0


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        # A traceback of the cause would show the service's whole message, with the key's name.
        raise StoreError(f"{url}: {reason_of(error)}") from None


class Store:
    """A store at `file:///folder` or `s3://bucket/prefix`. Keys, region and endpoint of a bucket come from the
    environment (`AWS_…`), and no request to it takes longer than `LONGEST_CALL`. Raises StoreError.
    """

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        if scheme == "s3" and "@" in rest:
            raise StoreError("a store's URL must not hold keys: set them in the environment (AWS_ACCESS_KEY_ID)")
        with _errors(url):
            if scheme == "file":
                self._folder: Path | None = Path(rest)
                self._store: Any = LocalStore(rest, mkdir=True)
            elif scheme == "s3":
                self._folder = None
                self._store = open_bucket(url)
            else:
                raise StoreError(f"the store {url!r} is neither file:///folder nor s3://bucket/prefix")
        self.url = url

    def put_samples(self, application: str, at: Seconds, source: str, samples: list[Sample]) -> None:
        """Put a batch. `at`, in seconds since 1970, and `source` tell it from all others: a batch that is put again
        under both replaces the one that may have been put before. Raises StoreError.
        """
        with _errors(self.url):
            path = f"{_samples_of(application)}/{_batch_name(at, source, samples)}"
            obstore.put(self._store, path, to_batch(samples))

    def samples(self, application: str, most: int) -> tuple[list[Sample], int]:
        """The newest samples, oldest first, and the number of batches that could not be read. Raises StoreError."""
        found: list[list[Sample]] = []
        count = unreadable = 0
        for path in sorted(self._paths(_samples_of(application)), reverse=True):
            if count >= most:
                break
            try:
                batch = from_batch(self._get(path))
            except NotStoredError:
                # Another pod erases old batches at the same time.
                continue
            except BatchError:
                unreadable += 1
                continue
            count += len(batch)
            found.append(batch)
        return [sample for batch in reversed(found) for sample in batch][-most:], unreadable

    def put_artifact(self, artifact: Artifact) -> str:
        """Put an artifact. Returns its digest. Raises StoreError."""
        content = artifact.to_bytes()
        name = digest(content)
        with _errors(self.url):
            obstore.put(self._store, f"{_artifacts_of(artifact.about.application)}/{name}", content)
        return name

    def artifact(self, application: str, name: str) -> Artifact:
        """Get an artifact by its digest. Raises StoreError, which may be NotStoredError, and ArtifactError."""
        return Artifact.of_version(name, self.artifact_file(application, name))

    def artifact_file(self, application: str, name: str) -> bytes:
        """Get an artifact's file by its digest. Raises StoreError, which may be NotStoredError."""
        try:
            return self._get(f"{_artifacts_of(application)}/{name}")
        except NotStoredError:
            raise NotStoredError(f"the artifact {name[:12]} is not in the store") from None

    def applications(self) -> frozenset[str]:
        """The names of the applications that the store has something of. Raises StoreError."""
        with _errors(self.url):
            prefixes = obstore.list_with_delimiter(self._store)["common_prefixes"]
        return frozenset(prefix.strip("/") for prefix in prefixes)

    def erase(self, application: str) -> int:
        """Erase all of an application. Returns the number of its objects. Raises StoreError."""
        paths = list(self._paths(_part_of(application)))
        self._delete(paths)
        if self._folder is not None:
            with _errors(self.url), suppress(FileNotFoundError):
                shutil.rmtree(self._folder / _part_of(application))
        return len(paths)

    def tidy_samples(self, application: str, most: int, since: Seconds) -> int:
        """Erase batches from before `since`, in seconds since 1970, and those with none of the newest `most` samples.
        Returns the number of samples that are left. It lists names and reads no batch. Raises StoreError.
        """
        oldest, count = f"{since:{_TIME}}", 0
        gone: list[str] = []
        for path in sorted(self._paths(_samples_of(application)), reverse=True):
            name = path.rpartition("/")[2]
            if count >= most or name < oldest:
                gone.append(path)
            else:
                count += _samples_in(name)
        self._delete(gone)
        if self._folder is not None:
            self._erase_unfinished(self._folder / _samples_of(application), oldest)
        return count

    def _erase_unfinished(self, folder: Path, oldest: str) -> None:
        """Erase files of killed writers: such files are never renamed, and so never listed."""
        with _errors(self.url):
            for path in folder.glob("*#*"):
                if path.name < oldest:
                    path.unlink(missing_ok=True)

    def _delete(self, paths: list[str]) -> None:
        """Delete objects, one by one in a folder: there an object that somebody else has deleted is an error, which
        leaves the others.
        """
        at_once = ERASED_AT_ONCE if self._folder is None else 1
        with _errors(self.url):
            for first in range(0, len(paths), at_once):
                with suppress(FileNotFoundError):
                    obstore.delete(self._store, paths[first : first + at_once])

    def _paths(self, prefix: str) -> Iterator[str]:
        with _errors(self.url):
            for page in obstore.list(self._store, f"{prefix}/"):
                for each in page:
                    yield each["path"]

    def _get(self, path: str) -> bytes:
        with _errors(self.url):
            try:
                result = obstore.get(self._store, path)
            except FileNotFoundError as error:
                if not lacks_object(error):
                    raise
                raise NotStoredError(f"{path} is not in the store") from None
            if result.meta["size"] > 2 * MOST_BYTES:
                raise StoreError(f"{self.url}: {path} is larger than any batch or artifact")
            return bytes(result.bytes())
