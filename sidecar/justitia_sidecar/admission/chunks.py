"""Times the engine's steps by the chunks of one request. Steps are not seen from outside, but the time between two
chunks of a request is the time of the steps that made them.
"""

from justitia_scheduling.core.step_time import StepTimeFit
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import Seconds, Tokens


class ChunkClock:
    """Uses one request as the clock, and another one once that is over. `fit` learns from it."""

    def __init__(self, fit: StepTimeFit) -> None:
        self._fit = fit
        self._reference: TrackedRequest | None = None
        self._last_chunk: Seconds = 0.0
        self._processed_then: Tokens = 0

    def chunk(self, request: TrackedRequest, steps: int, processed: Tokens, resident: Tokens, now: Seconds) -> None:
        """Note that a request got the tokens of so many `steps`. The engine has processed `processed` tokens for all
        requests so far, and holds `resident` ones.
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
