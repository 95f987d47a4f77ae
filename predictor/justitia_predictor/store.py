"""Where samples and artifacts outlive the pods: a folder of a volume, or a bucket of any S3-compatible service.

    {application}/samples/{name}       batches; names begin with the time and end with the number of samples
    {application}/artifacts/{digest}

`application` is a name that no other application ever has had: what is learned from a tenant's runs goes nowhere else.
Nothing is written over: objects come, are read, and are deleted.
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
    """The store does not do what was asked of it: it is away, full, or forbids it."""


class NotStoredError(StoreError):
    """The store works, and does not have it."""


ERASED_AT_ONCE = 100
"""In one request to a bucket."""
_TIME = "020.6f"
"""So that names are in the order of time."""


_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9.-]*")


def _part_of(application: str) -> str:
    """Of the store. Raises StoreError where the name could mean more than one application."""
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
    """By a batch's name; 0 where it was not we who named it."""
    count = name.rpartition("-")[2]
    return int(count) if count.isdecimal() and len(count) < 8 else 0


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        # Without the cause: a traceback would show all that the service said, the key's name with it.
        raise StoreError(f"{url}: {reason_of(error)}") from None


class Store:
    """`url`: `file:///folder` or `s3://bucket/prefix`. For a bucket, keys, region and endpoint are those of the
    environment (`AWS_…`), and no request to it takes longer than `LONGEST_CALL`. Raises StoreError.
    """

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        if scheme == "s3" and "@" in rest:
            raise StoreError("a store's URL holds no keys: they are taken from the environment (AWS_ACCESS_KEY_ID)")
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
        """A batch. `at`, in seconds since 1970, and `source` tell it from all others: what is put again under both
        takes the place of what may have been put before. Raises StoreError.
        """
        with _errors(self.url):
            path = f"{_samples_of(application)}/{_batch_name(at, source, samples)}"
            obstore.put(self._store, path, to_batch(samples))

    def samples(self, application: str, most: int) -> tuple[list[Sample], int]:
        """The newest, oldest first, and the number of batches that could not be read. Raises StoreError."""
        found: list[list[Sample]] = []
        count = unreadable = 0
        for path in sorted(self._paths(_samples_of(application)), reverse=True):
            if count >= most:
                break
            try:
                batch = from_batch(self._get(path))
            except NotStoredError:
                # Somebody tidies at the same time.
                continue
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
            obstore.put(self._store, f"{_artifacts_of(artifact.about.application)}/{name}", content)
        return name

    def artifact(self, application: str, name: str) -> Artifact:
        """By its digest. Raises StoreError, of which NotStoredError, and ArtifactError."""
        return Artifact.of_version(name, self.artifact_file(application, name))

    def artifact_file(self, application: str, name: str) -> bytes:
        """What is stored under that digest, as it is. Raises StoreError, of which NotStoredError."""
        try:
            return self._get(f"{_artifacts_of(application)}/{name}")
        except NotStoredError:
            raise NotStoredError(f"the artifact {name[:12]} is not in the store") from None

    def applications(self) -> frozenset[str]:
        """Names of which there is anything. Raises StoreError."""
        with _errors(self.url):
            prefixes = obstore.list_with_delimiter(self._store)["common_prefixes"]
        return frozenset(prefix.strip("/") for prefix in prefixes)

    def erase(self, application: str) -> int:
        """All of an application; tells how many objects that were. Raises StoreError."""
        paths = list(self._paths(_part_of(application)))
        self._delete(paths)
        if self._folder is not None:
            with _errors(self.url), suppress(FileNotFoundError):
                shutil.rmtree(self._folder / _part_of(application))
        return len(paths)

    def tidy_samples(self, application: str, most: int, since: Seconds) -> int:
        """Erases batches from before `since`, in seconds since 1970, and those with none of the newest `most` samples;
        tells how many samples are left. That is a listing: no batch is read. Raises StoreError.
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
        """What was being written when its writer was killed is never renamed, and so never listed."""
        with _errors(self.url):
            for path in folder.glob("*#*"):
                if path.name < oldest:
                    path.unlink(missing_ok=True)

    def _delete(self, paths: list[str]) -> None:
        """Somebody else may have been faster: of a folder, that is an error, and the others are left."""
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
                raise StoreError(f"{self.url}: {path} is larger than anything that was written there")
            return bytes(result.bytes())
