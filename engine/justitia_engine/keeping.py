"""Which sequences' KV is kept when they end, because the run's next request will begin with it.

Nobody tells whether a run goes on with a conversation. So each end of a run's sequence is remembered until a later
sequence of the run begins with its context, or the run is over: which of it happens is learnt for each application.
KV is kept for those whose contexts are taken up at least as often as not, where the cost model charges for keeping it.

A context is taken up by what begins with all of it that can be found again, or at least with its prompt: a client may
write an answer in other tokens than the engine did, or leave parts of it out.

Nothing here knows vLLM; the engine is asked through `Contexts`.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from justitia_scheduling.core.kept import KeptContexts
from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, Seconds, Tokens

MEMORY = 10
"""So many contexts of an application, the latest counting most, say whether the next one is taken up."""
OFTEN = 0.5
REMEMBERED = 8
"""Contexts of a run that have not been taken up. Of more the oldest counts as never taken up."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a sequence wrote, in blocks that can be found again. A later sequence begins with it if its block of one of
    these numbers has that hash, which covers all before it.
    """

    tokens: Tokens
    marks: tuple[tuple[int, Hashable], ...]


class Contexts(Protocol):
    """What the engine can tell and do about the KV of sequences."""

    def written(self, sequence: RequestId) -> Context | None:
        """The context of a sequence that has ended and still has its blocks; None where nothing can be found again."""

    def begins_with(self, sequence: RequestId, context: Context) -> bool:
        """Whether the prompt of a sequence begins with that context."""

    def hold(self, sequence: RequestId, context: Context) -> Callable[[], None]:
        """Hold on to the blocks of what that sequence, which has ended, wrote; returns what lets go of them."""


class Keeping:
    """`kept` is what is kept now; `begun` counts all that ever was, `taken_over` and `given_up` what came of it."""

    def __init__(self, policy: Policy, contexts: Contexts | None) -> None:
        self.kept: KeptContexts[RequestId] = KeptContexts(policy)
        self.taken_over = 0
        self.begun = 0
        self._contexts = contexts
        self._ended: dict[RunId, dict[RequestId, Context]] = {}
        self._takes_up: dict[RequestId, RequestId] = {}
        self._goes_on: defaultdict[ApplicationId, float] = defaultdict(float)

    @property
    def given_up(self) -> int:
        return self.begun - self.taken_over - len(self.kept)

    def ends(self, sequence: RequestId, run: OpenRun, now: Seconds) -> None:
        """A sequence has finished, and its blocks are about to be freed. Another request of the run may come."""
        contexts = self._contexts
        if contexts is None or (context := contexts.written(sequence)) is None:
            return
        ended = self._ended.setdefault(run.id, {})
        ended[sequence] = context
        if len(ended) > REMEMBERED:
            self._forget(run, next(iter(ended)), now)
        policy = self.kept.policy
        worth = policy.cost_model.prompt_work(policy.capacity) if policy.capacity else 0.0
        if worth and self._goes_on[run.run.application] >= OFTEN:
            self.begun += 1
            let_go = contexts.hold(sequence, context)
            self.kept.keep(sequence, run.id, context.tokens, worth=worth, let_go=let_go, now=now)

    def comes(self, sequence: RequestId, run: OpenRun) -> None:
        """A sequence of the run waits."""
        contexts, ended = self._contexts, self._ended.get(run.id)
        if contexts is None or not ended:
            return
        for before, context in reversed(ended.items()):
            if contexts.begins_with(sequence, context):
                self._takes_up[sequence] = before
                self._learn(run, True)
                del ended[before]
                return

    def admitted(self, sequence: RequestId, now: Seconds) -> None:
        """The sequence holds the blocks of the context that it begins with, as far as they are there."""
        before = self._takes_up.pop(sequence, None)
        if before is not None and self.kept.give_up(before, now):
            self.taken_over += 1

    def left(self, sequence: RequestId, now: Seconds) -> None:
        """The sequence is over. If it was not admitted, nobody will take up what it began with."""
        before = self._takes_up.pop(sequence, None)
        if before is not None:
            self.kept.give_up(before, now)

    def run_ends(self, run: OpenRun, now: Seconds) -> None:
        for before in list(self._ended.get(run.id, ())):
            self._forget(run, before, now)
        self._ended.pop(run.id, None)
        self.kept.run_ended(run.id, now)

    def _forget(self, run: OpenRun, before: RequestId, now: Seconds) -> None:
        del self._ended[run.id][before]
        self._learn(run, False)
        self.kept.give_up(before, now)

    def _learn(self, run: OpenRun, taken_up: bool) -> None:
        application = run.run.application
        self._goes_on[application] += (taken_up - self._goes_on[application]) / MEMORY
