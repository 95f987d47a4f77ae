"""The engine's steps, timed by the chunks of one request: where steps are not seen, the time between two of its chunks
is that of the steps that made them.
"""

from justitia_scheduling.core.step_time import StepTimeFit
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import Seconds, Tokens


class ChunkClock:
    """One request at a time serves as the clock; another one takes over when it is over. `fit` learns from it."""

    def __init__(self, fit: StepTimeFit) -> None:
        self._fit = fit
        self._reference: TrackedRequest | None = None
        self._last_chunk: Seconds = 0.0
        self._processed_then: Tokens = 0

    def chunk(self, request: TrackedRequest, steps: int, processed: Tokens, resident: Tokens, now: Seconds) -> None:
        """The request has got the tokens of so many steps. By now the engine has processed so many for all, and holds
        so many.
        """
        if self._reference is None:
            self._reference = request
        elif self._reference is request:
            self._fit.observe(now - self._last_chunk, steps, processed - self._processed_then, resident)
        else:
            return
        self._last_chunk, self._processed_then = now, processed

    def over(self, request: TrackedRequest) -> None:
        if self._reference is request:
            self._reference = None
