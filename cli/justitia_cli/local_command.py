"""`justitia local`: a pool on this machine from the YAML that a cluster takes."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from justitia_api.wire import ADMIN_PORT, ENGINE_PORT, PUBLIC_PORT
from justitia_cli.console import EXIT_INTERRUPTED, errors, fail, mistakes, output
from justitia_cli.local.conditions import ConditionPrinter
from justitia_cli.local.converge import read_keys
from justitia_cli.local.errors import LocalError
from justitia_cli.local.launch import LocalModel, Ports
from justitia_cli.local.manifest import load_manifest
from justitia_cli.local.pool import LocalPool
from justitia_cli.local.processes import tail
from justitia_cli.local.session import Session, state_directory
from justitia_cli.runtime import EngineSetupError, cache_directory, ensure_engine
from justitia_cli.tiny_model import Shape, make_tiny_model

app = typer.Typer(no_args_is_help=True, help="Run a pool on this machine: its engine and its sidecar as processes.")

WATCH_SECONDS = 0.5
TINY = "tiny"
DEMO = "demo"
RANDOM_MODELS = {TINY: Shape(), DEMO: Shape(hidden_size=512, layers=6)}

FileOption = Annotated[
    list[Path],
    typer.Option(
        "--file", "-f", help="YAML file with Tenants, a ServingPool, LLMApplications and key Secrets (repeatable)"
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        help="A folder or a name on the Hugging Face Hub; 'tiny' and the slower 'demo' are random models, made here"
    ),
]


def progress(message: str) -> None:
    errors.print(message, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    output.print(message, highlight=False, soft_wrap=True)


def find_model(name: str) -> LocalModel:
    """The model to serve. Random ones are made in the cache."""
    if name in RANDOM_MODELS:
        return LocalModel(str(make_tiny_model(cache_directory() / f"{name}-model", RANDOM_MODELS[name])), tiny=True)
    return LocalModel(str(Path(name).resolve()) if Path(name).is_dir() else name, tiny=False)


def interrupt_on_terminate() -> None:
    """Let SIGTERM end the program as Ctrl-C does, so that no process is left."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@app.command("up")
def up_command(  # noqa: PLR0917
    file: FileOption,
    model: ModelOption = TINY,
    port: Annotated[int, typer.Option(help="Port of the OpenAI API")] = PUBLIC_PORT,
    admin_port: Annotated[int, typer.Option(help="Port of the sidecar's metrics and status")] = ADMIN_PORT,
    engine_port: Annotated[int, typer.Option(help="Port of vLLM")] = ENGINE_PORT,
    engine_arg: Annotated[list[str] | None, typer.Option(help="An additional argument of vLLM (repeatable)")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when the pool is ready, and leave it running")
    ] = False,
) -> None:
    """Start the pool and keep it up. Edits of the files take effect while it runs; Ctrl-C ends it."""
    session = Session(state_directory())
    with mistakes():
        documents = load_manifest(file)
        if detach:
            _detach(session)
            return
        interrupt_on_terminate()
        try:
            with session.exclusive():
                ports = Ports(port, admin_port, engine_port)
                runtime = ensure_engine(progress)
                chosen = find_model(model)
                with LocalPool(
                    documents, session.directory, runtime, chosen, ports, progress, engine_arguments=engine_arg or ()
                ) as pool:
                    _serve(pool, session, file, chosen)
        except EngineSetupError as error:
            fail(str(error))
        except KeyboardInterrupt:
            progress("ended")
            raise typer.Exit(EXIT_INTERRUPTED) from None


@app.command("down")
def down_command() -> None:
    """End the running pool, with everything that it started."""
    with mistakes():
        progress("ended" if Session(state_directory()).end() else "nothing was up")


def _serve(pool: LocalPool, session: Session, files: list[Path], model: LocalModel) -> None:
    progress(f"starting {pool.config.model} ({'a tiny random model' if model.tiny else model.location})")
    pool.start(lambda pids: session.write(pids, ready=False))
    # Told before it is ready: `up --detach` prints what stands in the log when the session is.
    _tell(pool, read_keys(load_manifest(files)))
    session.write(pool.pids, ready=True)
    seen = _contents(files)
    conditions = ConditionPrinter(pool.status, progress)
    while True:
        time.sleep(WATCH_SECONDS)
        pool.check()
        conditions.look()
        if (now := _contents(files)) != seen:
            seen = now
            _apply(pool, files)


def _apply(pool: LocalPool, files: list[Path]) -> None:
    try:
        changed = pool.apply(load_manifest(files))
    except LocalError as error:
        errors.print(f"not applied, the old configuration stays in effect: {error}", highlight=False, soft_wrap=True)
    else:
        progress(f"generation {pool.config.generation} is written" if changed else "nothing changed")


def _contents(files: list[Path]) -> list[bytes]:
    return [file.read_bytes() for file in files if file.exists()]


def _tell(pool: LocalPool, keys: dict[str, str]) -> None:
    say(f"ready: {pool.base_url}  (metrics and status: {pool.admin_url})")
    for application in pool.config.applications:
        url = f"{pool.base_url}/applications/{application.namespace}/{application.name}/v1"
        output.print(
            f"  {application.name}: base_url={url} api_key={keys[application.tenant]}", highlight=False, soft_wrap=True
        )


def _detach(session: Session) -> None:
    """Run the same command without --detach in the background and wait until it is ready."""
    session.directory.mkdir(parents=True, exist_ok=True)
    log = session.directory / "supervisor.log"
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [sys.executable, "-m", "justitia_cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _await_ready(session, child.poll, log)
    say(tail(log))


def _await_ready(session: Session, poll: Callable[[], int | None], log: Path) -> None:
    while (note := session.read()) is None or not note.ready:
        if poll() is not None:
            raise LocalError(f"the pool did not start; the end of {log}:\n{tail(log)}")
        time.sleep(0.2)
