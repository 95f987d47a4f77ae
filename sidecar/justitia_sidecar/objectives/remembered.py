"""Keeps what was counted of objectives in a file beside the engine's socket, so that the counts survive a restart of
the sidecar while the engine goes on. They end with the pod.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from justitia_sidecar.objectives.objectives import Objectives
from justitia_vocabulary.units import Seconds

SAVE_SECONDS: Seconds = 30.0

log = structlog.get_logger("justitia.sidecar")


def load(path: Path, objectives: Objectives) -> None:
    """Restore what the file holds, if it is there and can be read."""
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return
    except (OSError, msgspec.DecodeError) as error:
        log.warning("counts of objectives not read: counting starts again", file=str(path), reason=str(error))
        return
    objectives.restore(saved)


async def save(path: Path, objectives: Objectives) -> None:
    """Write the file. Requests are served between two objectives."""
    pieces: dict[str, msgspec.Raw] = {}
    for name, piece in objectives.pieces():
        pieces[name] = msgspec.Raw(msgspec.json.encode(piece))
        await asyncio.sleep(0)
    await asyncio.to_thread(_write, path, pieces)


def _write(path: Path, pieces: Mapping[str, msgspec.Raw]) -> None:
    """Write the file as a whole or not at all. If the disk does not take it, only a restart loses something."""
    beside = path.with_suffix(".new")
    try:
        beside.write_bytes(msgspec.json.encode(pieces))
        beside.replace(path)
    except OSError as error:
        log.warning("counts of objectives not written: a restart would lose them", file=str(path), reason=str(error))


async def save_forever(path: Path, objectives: Objectives) -> None:
    while True:
        await asyncio.sleep(SAVE_SECONDS)
        await save(path, objectives)
