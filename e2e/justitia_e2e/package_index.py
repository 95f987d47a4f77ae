"""How pip on this machine reaches a package index, for pip inside a build: in files that are mounted while it builds,
so that nothing of it stays in the image.
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
    """Files and folders here, and where pip looks for them."""
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
    """What pip's own files and the environment say; the environment has the last word."""
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
