"""KV of runs that pause between two requests, kept for the next one.

When a request that writes a context has finished, its blocks stay held. They go when the run's next request takes them
over or the run ends, and before that in the policy's order: to let a request in that does not fit, those are given up
whose run ranks behind it, the last one first. A request waits for the KV of a run that ranks before it, as it would for
that run itself, but only as long as keeping is cheaper than reading again:

    tokens * iterations held <= tokens * rho,    rho = read(tokens) / (c_0 / M + c_kv)

where read(tokens) is the time to read a token of that context again, c_0 / M + c_kv what a full engine needs to deliver
one token held for one iteration, so rho is in iterations (`EngineTime.prompt_work`). Nobody knows how long a pause will
be; whoever gives up when it has cost as much as coming back costs pays at most twice what knowing would have cost (ski
rental). After that anybody's request takes the place. Nothing is waited for while nothing runs, and what runs is never
preempted while KV is kept. What is kept is charged to its tenant when it goes, in KV token-time, up to that limit: so a
tenant that keeps much ranks behind others, and pays for a pause no more than twice what reading again costs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from justitia_scheduling.core.model import Run
from justitia_scheduling.core.policy import Policy
from justitia_simulator.blocks import BlockPool, HeldBlocks
from justitia_simulator.contexts import TextName
from justitia_vocabulary.units import RunId, Seconds, Tokens


@dataclass(frozen=True, slots=True)
class _Kept:
    run: Run
    holding: HeldBlocks
    written: Tokens
    since: int
    until: float
    """In iterations of the engine."""


class KeptContexts:
    """What an engine keeps for its paused runs. `worth` says for how many iterations so many tokens are worth it."""

    def __init__(self, pool: BlockPool, policy: Policy, worth: Callable[[Tokens], float]) -> None:
        self._pool = pool
        self._policy = policy
        self._worth = worth
        self._contexts: dict[TextName, _Kept] = {}
        self.iterations = 0

    def keep(self, context: TextName, run: Run, holding: HeldBlocks, written: Tokens) -> None:
        """Hold on to the blocks of a request that has finished; `written` tokens of KV are there."""
        until = self.iterations + self._worth(written)
        self._contexts[context] = _Kept(run, holding, written, self.iterations, until)

    def give_up(self, context: TextName, now: Seconds) -> None:
        """Let go of a context, if it is kept, and charge for it."""
        kept = self._contexts.pop(context, None)
        if kept is not None:
            self._pool.release(kept.holding, kept.written)
            held = min(self.iterations, kept.until) - kept.since
            self._policy.kept(kept.run.id, kept.written * held, now)

    def run_ended(self, run: RunId, now: Seconds) -> None:
        for context in [name for name, kept in self._contexts.items() if kept.run.id == run]:
            self.give_up(context, now)

    def next_change(self) -> int | None:
        """After how many iterations the next context can be given up for anybody; None if no other will."""
        later = [kept.until for kept in self._contexts.values() if kept.until > self.iterations]
        return math.ceil(min(later) - self.iterations) if later else None

    def make_room(self, run: Run | None, now: Seconds) -> bool:
        """Give up one context for a request of that run, or for anybody if None. False if none has to go."""
        contexts = self._contexts
        if not contexts:
            return False
        first = min(contexts, key=lambda name: contexts[name].until)
        if contexts[first].until > self.iterations:
            runs, place = self._policy.runs, self._policy.place
            first = max(contexts, key=lambda name: place(runs[contexts[name].run.id]))
            if run is not None and place(runs[contexts[first].run.id]) <= place(runs[run.id]):
                return False
        self.give_up(first, now)
        return True
