"""Probes the engine, and passes on to the admission what it finds."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.engine.client import EngineAbsentError, EngineClient, EngineError
from justitia_sidecar.engine.hang import HangWatch, has_work
from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.units import Seconds

PROBE_BUSY: Seconds = 0.25
PROBE_IDLE: Seconds = 1.0
PROBES_TO_GIVE_UP = 2

log = structlog.get_logger("justitia.sidecar")


class EngineWatch:
    """`admission` returns the admission in effect, None before there is one. `heard` counts the pieces of answers that
    came from the engine. While they come, the engine answers: its server is only too busy for a probe.
    """

    def __init__(
        self,
        client: EngineClient,
        hangs: HangWatch,
        admission: Callable[[], Admission | None],
        clock: Callable[[], Seconds],
    ) -> None:
        self.heard = 0
        self._client = client
        self._hangs = hangs
        self._admission = admission
        self._clock = clock
        self._failures = 0

    async def watch(self, busy: Callable[[], bool], then: Callable[[], None]) -> None:
        """Probe until cancelled, more often while it is `busy`. `then` is called after each probe."""
        while True:
            if (admission := self._admission()) is not None:
                await self.look(admission)
                then()
            await asyncio.sleep(PROBE_BUSY if busy() else PROBE_IDLE)

    async def look(self, admission: Admission) -> None:
        before, heard = admission.engine, self.heard
        try:
            view = await self._client.probe(before)
            self._failures = 0
            self._judge_progress(view, owed=admission.books.in_engine)
            view.ready, view.doubted = not self._hangs.hangs, False
        except EngineError as error:
            absent = isinstance(error, EngineAbsentError)
            self._failures = self._failures + 1 if absent or self.heard == heard else 0
            view = replace(before, ready=before.ready and self._failures < PROBES_TO_GIVE_UP, doubted=False)
            if absent:
                self._hangs.absent(self._clock())
            else:
                self._hangs.silent(self._clock())
            if before.ready and not view.ready:
                log.warning("the engine does not answer: requests wait until it does", reason=str(error))
        if view.ready and not before.ready:
            log.info("the engine is ready", kv_tokens=view.kv_tokens, longest_request=view.longest)
        (self._admission() or admission).engine_told(view, self._clock())

    def lost(self) -> None:
        """Hold the queue until the engine answers a probe, because a request could not be sent. New requests wait,
        too: a busy engine closes a connection now and then.
        """
        if (admission := self._admission()) is not None:
            doubted = admission.engine.ready or admission.engine.doubted
            admission.engine_told(replace(admission.engine, ready=False, doubted=doubted), self._clock())

    def _judge_progress(self, view: EngineView, owed: int) -> None:
        """Pieces of answers count as progress too: the engine made steps for them, and its server may lag behind."""
        progress = None if view.progress is None else (*view.progress, str(self.heard))
        self._hangs.answered(progress, has_work(view, owed), self._clock())
