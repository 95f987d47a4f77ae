"""What images consist of, and how a build reaches packages."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from justitia_e2e.oci import layer_of, layers_of, manifest_digest, write_image
from justitia_e2e.package_index import CERTIFICATES, INSIDE, write_pip_configuration


def test_an_image_holds_its_layers_under_their_digests(tmp_path: Path) -> None:
    tar = tmp_path / "layer.tar"
    tar.write_bytes(b"content")
    write_image(tmp_path / "image", "name:1", [layer_of(tar)], {"Cmd": ["sleep"]})
    (layer,) = layers_of(tmp_path / "image")
    assert layer.name == hashlib.sha256(b"content").hexdigest()
    assert layer.samefile(tar)
    manifest = (layer.parent / manifest_digest(tmp_path / "image").removeprefix("sha256:")).read_bytes()
    assert manifest_digest(tmp_path / "image") == f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    configuration = json.loads(
        (layer.parent / json.loads(manifest)["config"]["digest"].removeprefix("sha256:")).read_text()
    )
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{layer.name}"]


def test_a_build_is_told_the_index_and_the_certificates_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", none)
    for name in CERTIFICATES:
        monkeypatch.delenv(name, raising=False)
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    monkeypatch.setenv("PIP_CERT", str(bundle))
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    mounts = write_pip_configuration(tmp_path)
    folder, configuration = mounts
    assert list(mounts.values()) == [INSIDE, "/etc/pip.conf"]
    assert (folder / "certificates.pem").read_text() == "certificates"
    assert "index-url = https://index.example/simple" in configuration.read_text()
    assert f"cert = {INSIDE}/certificates.pem" in configuration.read_text()
