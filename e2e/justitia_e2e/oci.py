"""Writes images as folders in the OCI layout. Layers are plain tar files, to save the time for compression, and are
linked into the images that share them.
"""

import hashlib
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK = 1 << 22
_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True)
class Layer:
    """A tar file and the digest of its content."""

    path: Path
    digest: str


def layer_of(path: Path) -> Layer:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return Layer(path, digest.hexdigest())


def write_image(folder: Path, name: str, layers: Sequence[Layer], configuration: dict[str, Any]) -> None:
    """Write the layout of one image with this name to `folder`."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for layer in layers:
        os.link(layer.path, blobs / layer.digest)
    root = {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]}
    image = {"architecture": "amd64", "os": "linux", "config": configuration, "rootfs": root}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": _put(blobs, f"{_TYPE}.config.v1+json", image),
        "layers": [
            {
                "mediaType": f"{_TYPE}.layer.v1.tar",
                "digest": f"sha256:{layer.digest}",
                "size": layer.path.stat().st_size,
            }
            for layer in layers
        ],
    }
    names = {"org.opencontainers.image.ref.name": "latest", "io.containerd.image.name": name}
    listed = _put(blobs, f"{_TYPE}.manifest.v1+json", manifest) | {"annotations": names}
    (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [listed]}))


def image_of_files(folder: Path, name: str, files: Mapping[str, Path]) -> None:
    """Write the layout of one image, with these files at its root, to `folder`/layout. Everybody may read the files."""
    folder.mkdir()
    tar = folder / "files.tar"
    with tarfile.open(tar, "w") as archive:
        for file_name, file in files.items():
            about = tarfile.TarInfo(file_name)
            about.size, about.mode = file.stat().st_size, 0o644
            with file.open("rb") as content:
                archive.addfile(about, content)
    write_image(folder / "layout", name, [layer_of(tar)], {})


def name_image(folder: Path, name: str) -> None:
    """Give the layout's only image the name that containerd reads."""
    index = json.loads((folder / "index.json").read_text())
    index["manifests"][0].setdefault("annotations", {})["io.containerd.image.name"] = name
    (folder / "index.json").write_text(json.dumps(index))


def manifest_digest(folder: Path) -> str:
    digest: str = json.loads((folder / "index.json").read_text())["manifests"][0]["digest"]
    return digest


def layers_of(folder: Path) -> list[Path]:
    """The blobs of the image's layers."""
    blobs = folder / "blobs" / "sha256"
    manifest = json.loads((blobs / manifest_digest(folder).removeprefix("sha256:")).read_text())
    return [blobs / layer["digest"].removeprefix("sha256:") for layer in manifest["layers"]]


def _put(blobs: Path, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}
