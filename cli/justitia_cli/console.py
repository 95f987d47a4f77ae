"""Parts that commands share: one-line errors with an exit code, and options of the form NAME=VALUE."""

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer._click.exceptions import ClickException, NoArgsIsHelpError
from typer.core import TyperGroup

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

WRONG_PATHS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors about a path that the user named: it is missing, of another kind, or not theirs. A full disk is no such error.
"""

KubeconfigOption = Annotated[str | None, typer.Option(help="Kubeconfig, as kubectl takes it")]
ContextOption = Annotated[str | None, typer.Option(help="Context of the kubeconfig, as kubectl takes it")]

output = Console()
errors = Console(stderr=True, soft_wrap=True)


def fail(message: str, code: int = EXIT_FAILED) -> NoReturn:
    """End the command with this line on standard error."""
    print(f"justitia: {message}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)


class OneLineErrors(TyperGroup):
    """A group of commands that says what is wrong with an option or argument in one line, with exit code 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except NoArgsIsHelpError:
            sys.exit(EXIT_USAGE)
        except ClickException as error:
            print(f"justitia: {' '.join(error.format_message().split())}", file=sys.stderr)  # noqa: T201
            sys.exit(EXIT_USAGE)
        except typer.Abort:
            sys.exit(EXIT_FAILED)
        sys.exit(code or 0)


@contextmanager
def mistakes() -> Iterator[None]:
    """Turn what a user or the machine did wrong into one line; bugs pass through as they are."""
    try:
        yield
    except ValueError as error:
        fail(str(error), EXIT_USAGE)
    except OSError as error:
        code = EXIT_USAGE if isinstance(error, WRONG_PATHS) else EXIT_FAILED
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), code)


def parse_pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """Parse `["t1=3"]` as {"t1": "3"}, each name once. Raises ValueError that names the option."""
    pairs = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not (name and separator and text):
            raise ValueError(f"{option} {value!r}: expected NAME=VALUE")
        if name in pairs:
            raise ValueError(f"{option} {value}: {name!r} is given twice")
        pairs[name] = text
    return pairs


def parse_weights_of(tenants: Collection[str], values: Sequence[str]) -> dict[str, float]:
    """Parse the weights of `--weight`. Raises ValueError if it names a tenant that the workload does not have."""
    weights = parse_weights(values)
    for tenant in weights:
        if tenant not in tenants:
            raise ValueError(f"--weight {tenant}: no such tenant in the workload: it has {', '.join(sorted(tenants))}")
    return weights


def parse_weights(values: Sequence[str], option: str = "--weight") -> dict[str, float]:
    """Parse `["t1=3"]` as {"t1": 3.0}. Weights are positive and finite."""
    weights = {}
    for tenant, text in parse_pairs(values, option).items():
        try:
            weights[tenant] = float(text)
        except ValueError:
            raise ValueError(f"{option} {tenant}={text}: {text!r} is not a number") from None
        if not 0 < weights[tenant] < float("inf"):
            raise ValueError(f"{option} {tenant}={text}: must be positive and finite")
    return weights
