"""`python -m justitia_predictor`: works on one application's part of a store.

`train` trains a model from the samples and puts it into the store. `export` writes the samples to standard output, a
JSON document on each line, oldest first, or the file of a version. `erase` erases everything.

The outcome of `train` and `erase` goes to standard output, as JSON, and to `--report`, which in a Job is the
container's termination message. Exit codes: 0, done; 1, the store failed; 3, there are too few samples.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from justitia_predictor.artifact import Errors
from justitia_predictor.features import NUMBERS
from justitia_predictor.models import RunningMean
from justitia_predictor.sample import MOST_SAMPLES, Sample
from justitia_predictor.store import Store, StoreError
from justitia_vocabulary.units import KVTokenTime, Seconds

EXIT_STORE, EXIT_TOO_FEW = 1, 3


class Trained(msgspec.Struct, frozen=True, rename="camel"):
    """A new version, the errors of its kind and of the running mean on held-out runs, and how long training took."""

    version: str
    kind: str
    samples: int
    unreadable_batches: int
    errors: Errors
    errors_of_running_mean: Errors
    seconds: Seconds


class Erased(msgspec.Struct, frozen=True):
    objects: int


class Failed(msgspec.Struct, frozen=True):
    error: str


class Exported(msgspec.Struct, frozen=True):
    """A sample, with its `numbers` by name and its `terms` by bucket. Bytes that are no text become U+FFFD."""

    finished: Seconds
    cost: KVTokenTime
    stages: tuple[KVTokenTime, ...]
    numbers: dict[str, float]
    terms: dict[int, int]
    text: str | None


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.command == "export":
        return _export(arguments)
    command: Callable[[argparse.Namespace], tuple[msgspec.Struct, int]] = {"train": _train, "erase": _erase}[
        arguments.command
    ]
    try:
        outcome, code = command(arguments)
    except StoreError as error:
        outcome, code = Failed(str(error)), EXIT_STORE
    document = msgspec.json.encode(outcome)
    sys.stdout.write(document.decode() + "\n")
    if arguments.report is not None:
        arguments.report.write_bytes(document)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m justitia_predictor", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    train = commands.add_parser("train", help="train a model from the newest samples and put it into the store")
    export = commands.add_parser("export", help="write samples, one JSON document on each line, or a version's file")
    erase = commands.add_parser("erase", help="erase all samples and models")
    for each in (train, export, erase):
        url = os.environ.get("JUSTITIA_STORE_URL")
        given = "file:///folder or s3://bucket/prefix (default: JUSTITIA_STORE_URL)"
        each.add_argument("--store", default=url, required=url is None, metavar="URL", help=given)
        each.add_argument("--application", required=True, metavar="NAME", help="the application's name in the store")
    for each in (train, erase):
        each.add_argument("--report", type=Path, metavar="FILE", help="also write the outcome to this file")
    export.add_argument("--version", metavar="DIGEST", help="the version whose file is written, instead of samples")
    train.add_argument("--seed", type=int, default=0, help="seed of what training draws (default: 0)")
    return parser


def _train(arguments: argparse.Namespace) -> tuple[Trained | Failed, int]:
    # Only training needs scikit-learn: the other commands start without it.
    from justitia_predictor.training import TooFewSamplesError, train  # noqa: PLC0415

    started = time.monotonic()
    store = Store(arguments.store)
    samples, unreadable = store.samples(arguments.application, MOST_SAMPLES)
    try:
        artifact = train(arguments.application, samples, arguments.seed)
    except TooFewSamplesError as error:
        return Failed(str(error)), EXIT_TOO_FEW
    errors = artifact.about.errors
    trained = Trained(
        version=store.put_artifact(artifact),
        kind=artifact.about.kind,
        samples=artifact.about.samples,
        unreadable_batches=unreadable,
        errors=errors[artifact.about.kind],
        errors_of_running_mean=errors[RunningMean.kind],
        seconds=time.monotonic() - started,
    )
    return trained, 0


def _erase(arguments: argparse.Namespace) -> tuple[Erased, int]:
    return Erased(Store(arguments.store).erase(arguments.application)), 0


def _export(arguments: argparse.Namespace) -> int:
    # The reader may close the pipe before the end.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        store = Store(arguments.store)
        if arguments.version is not None:
            sys.stdout.buffer.write(store.artifact_file(arguments.application, arguments.version))
            return 0
        samples, unreadable = store.samples(arguments.application, sys.maxsize)
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_STORE
    for sample in samples:
        sys.stdout.write(msgspec.json.encode(_exported(sample)).decode() + "\n")
    if unreadable:
        sys.stderr.write(f"{unreadable} batches could not be read and are left out\n")
    return 0


def _exported(sample: Sample) -> Exported:
    features = sample.features
    text = None if sample.text is None else sample.text.decode(errors="replace")
    numbers = dict(zip(NUMBERS, features.numbers, strict=True))
    return Exported(sample.finished, sample.cost, sample.stages, numbers, features.terms, text)


if __name__ == "__main__":
    sys.exit(main())
