"""Lets pip inside a build reach the package index that pip on this machine uses. Its files are mounted during the
build, so that nothing of them stays in the image.
"""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

INSIDE = "/run/package-index"
CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "cert", "timeout", "default-timeout", "proxy")


def write_pip_configuration(scratch: Path) -> dict[Path, str]:
    """Write the files. Returns their paths here, and where pip looks for them."""
    settings = _configured()
    folder = scratch / "package-index"
    folder.mkdir()
    bundle = settings.pop("cert", None) or next((os.environ[name] for name in CERTIFICATES if name in os.environ), None)
    if bundle and Path(bundle).is_file():
        shutil.copyfile(bundle, folder / "certificates.pem")
        settings["cert"] = f"{INSIDE}/certificates.pem"
    configuration = configparser.RawConfigParser()
    configuration["global"] = settings
    with (scratch / "pip.conf").open("w") as file:
        configuration.write(file)
    return {folder: INSIDE, scratch / "pip.conf": "/etc/pip.conf"}


def _configured() -> dict[str, str]:
    """The settings in pip's own files and in the environment, which overrules them."""
    found: dict[str, str] = {}
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip:
        listed = subprocess.run([pip, "config", "list"], capture_output=True, text=True, check=False).stdout
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            scope, _, setting = name.partition(".")
            if scope == "global":
                found[setting] = value.strip().strip("'\"")
    for setting in _SETTINGS:
        given = os.environ.get(f"PIP_{setting.upper().replace('-', '_')}")
        if given:
            found[setting] = given
    return {setting: found[setting] for setting in _SETTINGS if setting in found}
