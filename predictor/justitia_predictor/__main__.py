"""`python -m justitia_predictor`: trains one application's model from its samples in the store, and puts it there.

What came of it goes to standard output, as JSON, and to `--report`, which in a Job is the container's termination
message. Exit codes: 0, a model was trained; 1, the store does not do what it should; 3, there is too little to learn
from.
"""

import argparse
import sys
import time
from pathlib import Path

import msgspec

from justitia_predictor.artifact import Errors
from justitia_predictor.models import RunningMean
from justitia_predictor.sample import MOST_SAMPLES
from justitia_predictor.store import Store, StoreError
from justitia_predictor.training import TooFewSamplesError, train
from justitia_scheduling.model import Seconds

EXIT_STORE, EXIT_TOO_FEW = 1, 3


class Trained(msgspec.Struct, frozen=True, rename="camel"):
    """A new version, `errors` of its kind and of the running mean on held-out runs, and how long it took."""

    version: str
    kind: str
    samples: int
    unreadable_batches: int
    errors: Errors
    errors_of_running_mean: Errors
    seconds: Seconds


class Failed(msgspec.Struct, frozen=True):
    error: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m justitia_predictor", description=__doc__.partition("\n")[0])
    parser.add_argument("--store", required=True, metavar="URL", help="file:///folder or s3://bucket/prefix")
    parser.add_argument("--application", required=True, metavar="NAME", help="the application's name in the store")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the outcome there too")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    arguments = parser.parse_args()
    outcome: Trained | Failed
    try:
        outcome, code = _train(arguments.store, arguments.application, arguments.seed), 0
    except StoreError as error:
        outcome, code = Failed(str(error)), EXIT_STORE
    except TooFewSamplesError as error:
        outcome, code = Failed(str(error)), EXIT_TOO_FEW
    document = msgspec.json.encode(outcome)
    sys.stdout.write(document.decode() + "\n")
    if arguments.report is not None:
        arguments.report.write_bytes(document)
    return code


def _train(url: str, application: str, seed: int) -> Trained:
    started = time.monotonic()
    store = Store(url)
    samples, unreadable = store.samples(application, MOST_SAMPLES)
    artifact = train(application, samples, seed)
    errors = artifact.about.errors
    return Trained(
        version=store.put_artifact(artifact),
        kind=artifact.about.kind,
        samples=artifact.about.samples,
        unreadable_batches=unreadable,
        errors=errors[artifact.about.kind],
        errors_of_running_mean=errors[RunningMean.kind],
        seconds=time.monotonic() - started,
    )


if __name__ == "__main__":
    sys.exit(main())
