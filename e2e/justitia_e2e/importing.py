"""Imports images from the cache into containerd.

`ctr images import` would copy each layer, which takes minutes for vLLM's. So it gets the image without its layers.
These are linked into containerd's store, which takes what it finds there under the expected digest.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from justitia_e2e.images import Image
from justitia_e2e.machine import ClusterError, Progress, State
from justitia_e2e.node import ctr, ctr_command
from justitia_e2e.oci import layers_of, manifest_digest


def import_images(state: State, images: Sequence[Image], progress: Progress) -> None:
    """Import the images that containerd does not have."""
    present = {line.split()[0]: line.split()[2] for line in ctr(state, "images", "ls").splitlines()[1:]}
    for image in images:
        if present.get(image.name) == manifest_digest(image.folder):
            continue
        progress(f"giving {image.name} to containerd")
        layers = layers_of(image.folder)
        _import_without(state, image, layers)
        for layer in layers:
            _give_layer(state, layer)
        ctr(state, "snapshots", "unpack", manifest_digest(image.folder))


def _import_without(state: State, image: Image, layers: Sequence[Path]) -> None:
    left_out = [f"--exclude=./{layer.relative_to(image.folder)}" for layer in layers]
    with subprocess.Popen(["tar", "--create", *left_out, "-C", image.folder, "."], stdout=subprocess.PIPE) as small:
        assert small.stdout is not None
        _ctr_reading(state, small.stdout.fileno(), "images", "import", "--no-unpack", "-")


def _give_layer(state: State, layer: Path) -> None:
    store = state.root / "containerd" / "root" / "io.containerd.content.v1.content" / "blobs" / "sha256"
    store.mkdir(parents=True, exist_ok=True)
    # If the link fails, for another file system or an existing file, the layer is copied.
    with suppress(OSError):
        os.link(layer, store / layer.name)
    expected = [f"--expected-size={layer.stat().st_size}", f"--expected-digest=sha256:{layer.name}"]
    with layer.open("rb") as file:
        _ctr_reading(state, file.fileno(), "content", "ingest", *expected, f"layer-{layer.name}")


def _ctr_reading(state: State, source: int, *arguments: str) -> None:
    done = subprocess.run(ctr_command(state, *arguments), stdin=source, capture_output=True, text=True, check=False)
    if done.returncode and "already exists" not in done.stderr:
        raise ClusterError(f"containerd: ctr {arguments[0]} {arguments[1]}: {done.stderr[-2000:]}")
