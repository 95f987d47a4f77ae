"""Checks the machine, installs what it lacks, and restores what is changed: packages stay, kernel settings are put
back.
"""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Progress = Callable[[str], None]

STATE = Path("/var/lib/justitia-e2e")

PACKAGES = {
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "nftables": "/usr/sbin/nft",
    "iproute2": "/bin/ip",
    "mmdebstrap": "/usr/bin/mmdebstrap",
    "buildah": "/usr/bin/buildah",
}
"""Debian's packages, each with a file that shows that it is installed."""

CHANGED_SETTINGS = (
    "net/ipv4/ip_forward",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""Kernel settings that this program, the network plug-in and the kubelet change."""

FOLDERS_OF_PROGRAMS = tuple(
    map(Path, ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/usr/libexec/kubernetes"))
)
"""Folders to which programs write whatever their settings say. Folders that existed before stay."""


class ClusterError(Exception):
    """The cluster cannot run. The message says why, and what to do."""


@dataclass(frozen=True)
class State:
    """The folder for all that belongs to the cluster. It is removed with the cluster."""

    root: Path = STATE

    @property
    def kubeconfig(self) -> Path:
        return self.root / "admin.kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        return self.root / "containerd.sock"

    @property
    def containerd(self) -> Path:
        """A link to the folder of containerd's programs."""
        return self.root / "containerd-programs"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def before(self) -> Path:
        return self.root / "before.json"

    @property
    def owner(self) -> Path:
        """Names the checkout that brought the cluster up."""
        return self.root / "owner"


NEEDED_RIGHTS = {
    "mount": "unshare --mount mount -t tmpfs none /mnt",
    "make networks": "unshare --net true",
    "make control groups": "cd /sys/fs/cgroup; cd memory || :; mkdir justitia-probe && rmdir justitia-probe",
}
"""Rights, each with a command that needs it and leaves nothing behind."""


def check_machine() -> None:
    """Raises ClusterError if a node cannot run on this machine. Changes nothing."""
    if os.geteuid() != 0:
        raise ClusterError("a node needs root (mounts, cgroups, network): run this as root, on a machine of your own")
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    if system.get("ID") != "debian":
        raise ClusterError(f"a node needs Debian's packages, but this is {system.get('PRETTY_NAME', 'another system')}")
    for what, command in NEEDED_RIGHTS.items():
        if subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode:
            raise ClusterError(
                f"root may not {what} here, which a node needs: a container, or a restricted machine, will not do"
            )


def ensure_packages(progress: Progress) -> None:
    missing = [package for package, file in PACKAGES.items() if not Path(file).exists()]
    if not missing:
        return
    progress(f"installing Debian's {', '.join(missing)}")
    with _WithoutServices():
        run(["apt-get", "update", "-qq"])
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], environment=quiet)


class _WithoutServices:
    """Keeps packages from starting their servers, by a program that Debian's packages ask."""

    _POLICY = Path("/usr/sbin/policy-rc.d")

    def __enter__(self) -> None:
        self._ours = not self._POLICY.exists()
        if self._ours:
            self._POLICY.write_text("#!/bin/sh\nexit 101\n")
            self._POLICY.chmod(0o755)

    def __exit__(self, *error: object) -> None:
        if self._ours:
            self._POLICY.unlink()


def remember_machine(state: State) -> None:
    """Record settings and folders before anything is started."""
    settings = {name: file.read_text().strip() for name in CHANGED_SETTINGS if (file := _setting(name)).exists()}
    absent = [str(folder) for folder in FOLDERS_OF_PROGRAMS if not folder.exists()]
    state.before.write_text(json.dumps({"settings": settings, "absent": absent}))


def restore_machine(state: State) -> None:
    if not state.before.exists():
        return
    before = json.loads(state.before.read_text())
    for name, value in before["settings"].items():
        if _setting(name).read_text().strip() != value:
            _setting(name).write_text(value)
    for folder in before["absent"]:
        shutil.rmtree(folder, ignore_errors=True)


def _setting(name: str) -> Path:
    return Path("/proc/sys") / name


def remove_mounts(state: State) -> None:
    """Unmount, the innermost first. Removing the folder would empty what is still mounted."""
    points = [
        line.split()[1].encode().decode("unicode_escape") for line in Path("/proc/mounts").read_text().splitlines()
    ]
    for point in sorted(points, reverse=True):
        if Path(point).is_relative_to(state.root):
            run(["umount", point])


def run(command: Sequence[str | Path], *, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a command, and return what it prints. Raises ClusterError with the end of its messages."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.decode(errors="replace").strip() or done.stdout.decode(errors="replace").strip())[-2000:]
        raise ClusterError(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")
