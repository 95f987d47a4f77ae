"""A run's prompts as token ids: what is shared with other runs, what was said before in this one, and what is new.

Ids are drawn, seeded by what they are for, so that the same file and seed give the same prompts: a text that runs share
by its name, the rest by run and number of the request. What a context contains is what was sent and what the engine
answered; where the engine does not tell its answer's ids, drawn ones stand for it, and the cache finds the context up
to there only from the prompt after the next on.
"""

import random
from collections.abc import Sequence

from justitia_simulator.workload import WorkloadRequest, WorkloadRun


class Prompts:
    """Writes the prompts of one run. Ids are from `token_ids` (first, last)."""

    def __init__(self, run: WorkloadRun, seed: int, token_ids: tuple[int, int]) -> None:
        self._run = run
        self._seed = seed
        self._ids = range(token_ids[0], token_ids[1] + 1)
        self._contexts: dict[str, list[int]] = {}
        self._grown: dict[str, list[int]] = {}

    def stage_begins(self) -> None:
        """From here on prompts can repeat what the stage before was answered."""
        self._contexts |= self._grown
        self._grown.clear()

    def write(self, number: int, request: WorkloadRequest) -> list[int]:
        """The prompt of the run's request of that number."""
        prefix = request.prefix
        known = request.prefix_tokens if prefix else 0
        own = self._drawn(f"{self._run.id}/{number}", request.prompt_tokens - known)
        if not prefix:
            return own
        context = self._contexts.get(prefix)
        return (self._drawn(f"prefix/{prefix}", known) if context is None else context[:known]) + own

    def answered(self, number: int, request: WorkloadRequest, prompt: Sequence[int], answer: Sequence[int]) -> None:
        """The engine's answer to that prompt, empty if its ids are not known."""
        if request.context is None:
            return
        if len(answer) != request.output_tokens:
            answer = self._drawn(f"{self._run.id}/{number}/answer", request.output_tokens)
        self._grown[request.context] = [*prompt, *answer]

    def _drawn(self, what: str, count: int) -> list[int]:
        return random.Random(f"{self._seed}/{what}").choices(self._ids, k=count)
