"""The commands of docs/getting-started.md, one after the other, with a real vLLM and a real sidecar."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from justitia_api.wire import ADMIN_PORT, PUBLIC_PORT
from justitia_cli.local.ports import free_ports
from support.commands import output_of
from support.pages import GETTING_STARTED, ROOT, Block, Treatment, blocks_of

START_SECONDS = 300


@dataclass
class Checkout:
    """A folder that looks like the repository to a reader, on ports of its own."""

    folder: Path
    ports: dict[str, int]

    def run(self, block: Block) -> str:
        """What the block prints. Raises CalledProcessError where one of its commands fails."""
        match block.language:
            case "bash":
                command = ["bash", "-euo", "pipefail", "-c", self._here("\n".join(block.commands))]
            case "python":
                command = [sys.executable, "-c", self._here(block.text)]
            case other:
                raise ValueError(f"{block.name}: a block of {other or 'no language'} cannot be run")
        return self._output(command)

    def end(self) -> None:
        self._output([sys.executable, "-m", "justitia_cli", "local", "down"])

    def _here(self, text: str) -> str:
        """The text with this folder's ports in the place of those that a reader has."""
        options = " ".join(f"{option}={port}" for option, port in self.ports.items())
        text = re.sub(r"local up\b", f"local up {options}", text)
        text = text.replace(f":{PUBLIC_PORT}", f":{self.ports['--port']}")
        return text.replace(f":{ADMIN_PORT}", f":{self.ports['--admin-port']}")

    def _output(self, command: list[str]) -> str:
        environment = os.environ | {"XDG_STATE_HOME": str(self.folder / "state")}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_SECONDS,
        )
        return output_of(done)


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    folder = tmp_path_factory.mktemp("start")
    for name in (".venv", "examples"):
        (folder / name).symlink_to(ROOT / name)
    ports = dict(zip(("--port", "--admin-port", "--engine-port"), free_ports(3), strict=True))
    checkout = Checkout(folder, ports)
    try:
        yield checkout
    finally:
        checkout.end()


def test_the_commands_do_what_the_page_says(checkout: Checkout) -> None:
    blocks = [block for block in blocks_of(GETTING_STARTED) if block.treatment is Treatment.RUN]
    printed = "\n".join(checkout.run(block) for block in blocks)
    for told in (
        "ready: http",
        "api_key=example-only-support",
        "completion_tokens",
        "support",
        "0 waiting",
        "Report in",
    ):
        assert told in printed
    assert (checkout.folder / "out/report.html").exists()
