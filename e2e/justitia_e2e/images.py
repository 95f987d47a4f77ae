"""Makes the images of the cluster without a registry, and keeps them in the user's cache by a digest of their content.

- the base: Debian with Python, for the next two; it is also the image of the pods' sandboxes;
- justitia: `images/Dockerfile` on that base, built by buildah as a user would build it;
- Redis, Debian's, in the place of Valkey's own image;
- vLLM for CPU, in the place of vLLM's own image: the engine's environment on that base, for the system's Python.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from justitia_cli.runtime import EngineSetupError, cache_directory, ensure_engine, exclusive
from justitia_e2e.machine import ClusterError, Progress, run
from justitia_e2e.node import SANDBOX_IMAGE
from justitia_e2e.oci import layer_of, name_image, write_image
from justitia_e2e.package_index import write_pip_configuration

ROOT = Path(__file__).parents[2]
ENGINE_IMAGE = "docker.io/library/vllm-cpu:local"
REDIS_IMAGE = "docker.io/library/redis:local"
SUITE = "bookworm"
PYTHON = "python3.11"
BASE_PACKAGES = ("python3", "python3-venv", "libnuma1")
SOURCES = (
    "images/Dockerfile pyproject.toml README.md LICENSE locks "
    "vocabulary channel scheduling predictor valkey api operator sidecar engine simulator cli"
)
"""The files that the Dockerfile reads."""
ENGINE_BYTES = 12 << 30
"""The disk space for vLLM's image, and for its files as containers see them."""
NOT_NEEDED = ("triton",)
"""Packages of the engine's environment that are for GPUs only and that vLLM does without."""

_LOADED = (
    "import torch; print(*{line.split()[-1] for line in open('/proc/self/maps') if '/nvidia/' in line}, sep='\\n')"
)


@dataclass(frozen=True)
class Image:
    name: str
    folder: Path

    @property
    def tag(self) -> str:
        return self.name.rpartition(":")[2]


def ensure_images(progress: Progress) -> list[Image]:
    """The base, justitia's image, Redis and vLLM's. Images that are not in the cache are made."""
    cache = cache_directory() / "images"
    cache.mkdir(parents=True, exist_ok=True)
    with exclusive(cache / "lock", progress):
        base = _ensure_base(cache, progress)
        made = [_ensure_justitia(cache, base, progress), _ensure_redis(cache, progress)]
        return [base, *made, _ensure_engine(cache, base, progress)]


def _ensure_base(cache: Path, progress: Progress) -> Image:
    digest = _digest(SUITE, *BASE_PACKAGES)

    def make(folder: Path, scratch: Path) -> None:
        tar = scratch / "base.tar"
        packages = f"--include={','.join(BASE_PACKAGES)}"
        run(["mmdebstrap", "--quiet", "--variant=minbase", packages, SUITE, tar])
        # A sandbox needs a process: this one does nothing.
        write_image(folder, SANDBOX_IMAGE, [layer_of(tar)], {"Cmd": ["sleep", "infinity"], "Env": [_PATH]})

    return Image(SANDBOX_IMAGE, _ensure(cache, "base", digest, make, progress))


_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _ensure_justitia(cache: Path, base: Image, progress: Progress) -> Image:
    digest = _digest(base.folder.name, *_contents(ROOT / source for source in SOURCES.split()))
    name = f"docker.io/library/justitia:{digest}"

    def make(folder: Path, scratch: Path) -> None:
        storage: list[str | Path] = [
            "--root",
            scratch / "storage",
            "--runroot",
            scratch / "run",
            "--storage-driver",
            "vfs",
        ]
        options = [
            "--isolation",
            "chroot",
            "--build-arg",
            f"BASE=oci:{base.folder.name}:latest",
            "--tag",
            "localhost/justitia",
        ]
        for source, target in write_pip_configuration(scratch).items():
            options += ["--volume", f"{source}:{target}:ro"]
        # buildah refuses a path with a folder whose name begins with a dot: a relative path has none.
        build = ["buildah", *storage, "build", *options, "--file", ROOT / "images" / "Dockerfile", ROOT]
        run(build, cwd=base.folder.parent)
        run(["buildah", *storage, "push", "localhost/justitia", f"oci:{folder}:latest"])
        name_image(folder, name)

    return Image(name, _ensure(cache, "justitia", digest, make, progress))


def _ensure_redis(cache: Path, progress: Progress) -> Image:
    def make(folder: Path, scratch: Path) -> None:
        tar = scratch / "redis.tar"
        run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=redis-server", SUITE, tar])
        write_image(folder, REDIS_IMAGE, [layer_of(tar)], {"Entrypoint": ["redis-server"], "Env": [_PATH]})

    return Image(REDIS_IMAGE, _ensure(cache, "redis", _digest(SUITE, REDIS_IMAGE), make, progress))


def _ensure_engine(cache: Path, base: Image, progress: Progress) -> Image:
    try:
        python = ensure_engine(lambda line: progress(f"engine: {line}"), "cpu").python
    except EngineSetupError as error:
        raise ClusterError(str(error)) from error
    packages = python.parents[1] / "lib" / PYTHON / "site-packages"
    if not packages.is_dir():
        raise ClusterError(f"the engine's environment is not for {PYTHON}, which {SUITE} has: make .venv with that one")

    def make(folder: Path, scratch: Path) -> None:
        if shutil.disk_usage(cache).free < ENGINE_BYTES:
            needed = ENGINE_BYTES >> 30
            raise ClusterError(f"vLLM's image and containers take {needed} GiB below {cache}: free some space")
        tar = scratch / "engine.tar"
        left_out = [*(packages / name for name in NOT_NEEDED), *_never_loaded(python, packages / "nvidia")]
        listing = scratch / "left-out"
        listing.write_text("".join(f"./{path.relative_to(packages)}\n" for path in left_out))
        # Where Debian's Python looks, whatever PYTHONPATH says.
        target = rf"--transform=s,^\.,usr/local/lib/{PYTHON}/dist-packages,S"
        owner = ["--owner=0", "--group=0", "--numeric-owner"]
        run(
            [
                "tar",
                "--create",
                "--file",
                tar,
                *owner,
                "--anchored",
                "--no-wildcards",
                f"--exclude-from={listing}",
                target,
                "-C",
                packages,
                ".",
            ]
        )
        base_layer = max((base.folder / "blobs" / "sha256").iterdir(), key=lambda file: file.stat().st_size)
        command = {"Entrypoint": ["python3", "-m", "vllm.entrypoints.openai.api_server"], "Env": [_PATH]}
        write_image(folder, ENGINE_IMAGE, [layer_of(base_layer), layer_of(tar)], command)

    digest = _digest(base.folder.name, python.parents[1].name, *NOT_NEEDED, _LOADED)
    return Image(ENGINE_IMAGE, _ensure(cache, "engine", digest, make, progress))


def _never_loaded(python: Path, folder: Path) -> list[Path]:
    """Files of CUDA's libraries that torch does not load: it always loads those that it is linked to."""
    loaded = {Path(line).resolve() for line in run([python, "-c", _LOADED]).splitlines()}
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".py")
    return [file for file in files if file.resolve() not in loaded]


def _ensure(cache: Path, kind: str, digest: str, make: Callable[[Path, Path], None], progress: Progress) -> Path:
    """The image's folder. It appears once it is whole, and replaces older ones of its kind."""
    target = cache / f"{kind}-{digest}"
    if target.exists():
        return target
    progress(f"making the image {kind}")
    with tempfile.TemporaryDirectory(dir=cache, prefix="unfinished-") as scratch:
        folder = Path(scratch) / "layout"
        make(folder, Path(scratch))
        for other in cache.glob(f"{kind}-*"):
            shutil.rmtree(other)
        folder.replace(target)
    return target


def _contents(sources: Iterable[Path]) -> list[str]:
    """The files in these folders, each with its name and the digest of its content."""
    found = []
    for source in sources:
        files = [source] if source.is_file() else sorted(file for file in source.rglob("*") if file.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                mode = os.access(file, os.X_OK)
                found.append(f"{file.relative_to(ROOT)} {mode} {hashlib.sha256(file.read_bytes()).hexdigest()}")
    return found


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
