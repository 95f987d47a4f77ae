"""Files that are there whole or not at all: written beside their place, then renamed into it."""

import errno
import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file at once; its folder is made if missing. Raises IsADirectoryError if a folder has its name."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o644)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Replace the file by these lines, compressed if its name ends in `.gz` (the same bytes for the same lines)."""
    content = b"".join(line + b"\n" for line in lines)
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
