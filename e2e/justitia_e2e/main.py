"""`e2e/cluster`: one Kubernetes node on this machine, from packages and sources, with the operator installed."""

import sys
import time
from pathlib import Path
from typing import NoReturn

import typer

from justitia_cli.runtime import EngineSetupError, exclusive
from justitia_e2e.cluster import bring_up, look, take_down
from justitia_e2e.machine import ClusterError, State, check_machine

LOCK = Path("/run/justitia-e2e.lock")
EXIT_FAILED = 1
EXIT_USAGE = 2

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="One Kubernetes node on this machine (Debian, as root), with the operator installed and vLLM for CPU at hand.",
)


@app.command()
def up() -> None:
    """Bring the node up, install the operator, and print how to reach it. Harmless if it is up."""
    _check()
    state, progress = State(), ProgressLines()
    try:
        with exclusive(LOCK, progress):
            kubectl = bring_up(state, progress)
    except (ClusterError, EngineSetupError) as error:
        _fail(str(error), EXIT_FAILED)
    typer.echo(f"export KUBECONFIG={state.kubeconfig}")
    typer.echo(f"alias kubectl={kubectl.program}")


@app.command()
def down() -> None:
    """End everything that `up` started and remove what it made; packages and the cache stay."""
    _check()
    progress = ProgressLines()
    try:
        with exclusive(LOCK, progress):
            take_down(State(), progress)
    except ClusterError as error:
        _fail(str(error), EXIT_FAILED)


@app.command()
def check() -> None:
    """Check whether a node can run on this machine. Changes nothing. Exit code 2 if it cannot."""
    _check()


@app.command()
def status() -> None:
    """Show which parts work. Exit code 1 unless all do."""
    _check()
    parts = look(State())
    for part in parts:
        typer.echo(f"{'yes' if part.works else 'no':<5}{part.name:<26}{part.said}")
    raise typer.Exit(0 if all(part.works for part in parts) else EXIT_FAILED)


class ProgressLines:
    """Prints lines with the seconds since the command began."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, line: str) -> None:
        typer.echo(f"{time.monotonic() - self._started:5.0f} s  {line}", err=True)


def _check() -> None:
    try:
        check_machine()
    except ClusterError as error:
        _fail(str(error), EXIT_USAGE)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"cluster: {message}", err=True)
    sys.exit(code)


def main() -> None:
    app(prog_name="e2e/cluster")
