"""`python -m justitia_benchmarks.operator`, with `tests/` on PYTHONPATH."""

import json
import logging
from pathlib import Path
from typing import Annotated

import structlog
import typer

from cluster.build import BuildError
from cluster.control_plane import ControlPlaneError
from justitia_benchmarks.operator.measure import measure
from justitia_benchmarks.operator.population import Size
from justitia_benchmarks.reports.operator import write_document
from justitia_cli.console import EXIT_INTERRUPTED, errors, fail, output
from justitia_operator.runtime.kube import Rejected, Unavailable
from justitia_simulator.files import write_bytes

WHOLE, QUICK = Size(tenants=100, pools=50, applications=1000), Size(tenants=20, pools=10, applications=100)
REPETITIONS = 3
QUIET_SECONDS, QUICK_QUIET_SECONDS = 300.0, 20.0
"""The whole holds one time at which everything is listed anew."""


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="A tenth of it, once: a look in two minutes")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the document and the figures")] = Path("docs/results"),
) -> None:
    """How long an operator takes for a thousand applications, for a changed weight, and what it needs in silence.

    Control plane and operator are real, nodes and pods are simulated by kwok. Leave the machine alone meanwhile.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    size, repetitions = (QUICK, 1) if quick else (WHOLE, REPETITIONS)
    quiet = QUICK_QUIET_SECONDS if quick else QUIET_SECONDS
    folder = Path("out/bench-operator-quick") if quick else out
    found = []
    try:
        for seed in range(1, repetitions + 1):
            errors.print(f"repetition {seed} of {repetitions}")
            found.append(measure(size, seed, quiet, lambda line: errors.print(f"  {line}")))
    except KeyboardInterrupt:
        fail("interrupted: nothing was written", EXIT_INTERRUPTED)
    except (BuildError, ControlPlaneError, Unavailable, Rejected, RuntimeError, TimeoutError) as error:
        fail(str(error) or "it did not come so far in five minutes: nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "operator.json", json.dumps(found, indent=1).encode() + b"\n")
    output.print(f"Results in {write_document(size, quiet, found, folder)}")


if __name__ == "__main__":
    typer.run(bench)
