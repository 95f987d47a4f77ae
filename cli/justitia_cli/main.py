"""Entry point of the `justitia` command; each subcommand lives in a module of its own."""

import typer

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)


def main() -> None:
    app()
