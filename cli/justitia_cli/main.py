"""Entry point of the `justitia` command.

A subcommand's module is imported only when the subcommand is called, so that help comes at once and no command loads
the libraries of another. So the help of each command is also here; a test compares it with the commands' own.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from justitia_cli.console import OneLineErrors

COMMANDS = {
    "local": ("local_command:app", "Run a pool on this machine: its engine and its sidecar as processes."),
    "workload": ("workload_command:app", "Make workload files."),
    "top": ("look_command:top_command", "Show how engines are shared between tenants, live."),
    "explain": ("look_command:explain_command", "Say why requests wait, and which requests are before them."),
    "predictor": (
        "predictor_command:app",
        "Roll an application's predictor back; export or erase its samples.",
    ),
    "demo": (
        "demo.command:demo_command",
        "Show the main job on this machine: two tenants flood, a light one hardly notices, runs finish early.",
    ),
    "calibrate": (
        "calibrate:calibrate_command",
        "Measure how long the steps of a live engine take, so that simulations agree with it.",
    ),
    "simulate": ("simulate:simulate_command", "Serve a workload on a simulated engine and record what happened."),
    "replay": (
        "replay_command:replay_command",
        "Send a workload to a live OpenAI endpoint, open loop, and record what happened.",
    ),
    "report": ("report:report_command", "Compare the policies in result folders."),
}
"""The module and the name of each command, and its help."""


class Deferred(TyperCommand):
    """Stands for a command until that is called."""

    def __init__(self, name: str, target: str, description: str) -> None:
        super().__init__(name, help=description)
        self.target = target

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        found: typer.Typer | Callable[..., None] = getattr(import_module(f"justitia_cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            return get_group(found)
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(found)
        return get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


class Commands(OneLineErrors):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (target, description) in COMMANDS.items():
            self.add_command(Deferred(name, target, description))


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_show_locals=False)


@app.callback()
def justitia() -> None: ...


def main() -> None:
    app()
