"""KV of runs that pause between two requests, kept for the next one.

When a request has finished whose context the run's next request will begin with, its KV stays held. It goes when that
request takes it over or the run ends, and before that in the policy's order: to let a request in that does not fit,
contexts are given up whose run ranks behind it, the last one first. A request waits for the KV of a run that ranks
before it, as it would for that run itself, but only as long as keeping is cheaper than reading again:

    tokens * iterations held <= tokens * rho,    rho = read(tokens) / (c_0 / M + c_kv)

where read(tokens) is the time to read a token of that context again, c_0 / M + c_kv what a full engine needs to deliver
one token held for one iteration, so rho is in iterations (`CostModel.prompt_work`). Nobody knows how long a pause will
be; whoever gives up when it has cost as much as coming back costs pays at most twice what knowing would have cost (ski
rental). After that anybody's request takes the place. Nothing is waited for while nothing runs, and what runs is never
preempted while KV is kept. What is kept is charged to its tenant when it goes, in KV token-time, up to that limit: so a
tenant that keeps much ranks behind others, and pays for a pause no more than twice what reading again costs.
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RunId, Seconds, Tokens

MOST = 100
"""Contexts that are kept at once. All of them are looked at to find the one that goes next."""

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Kept:
    run: RunId
    tokens: Tokens
    let_go: Callable[[], None]
    since: int
    until: float
    """In iterations of the engine."""


class KeptContexts(Generic[Name]):
    """What an engine keeps for its paused runs, which are open. The host counts `iterations`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.iterations = 0
        self._contexts: dict[Name, _Kept] = {}

    def __len__(self) -> int:
        return len(self._contexts)

    @property
    def tokens(self) -> Tokens:
        """Those of all contexts; what two share is counted twice."""
        return sum(kept.tokens for kept in self._contexts.values())

    def keep(
        self, name: Name, run: RunId, tokens: Tokens, *, worth: float, let_go: Callable[[], None], now: Seconds
    ) -> None:
        """Keep a context of so many tokens, which is worth it for so many iterations; `let_go` frees its KV."""
        since = self.iterations
        self._contexts[name] = _Kept(run, tokens, let_go, since, since + worth)
        if len(self._contexts) > MOST:
            self.give_up(self._last(), now)

    def give_up(self, name: Name, now: Seconds) -> bool:
        """Let go of a context and charge for it. False if it is not kept."""
        kept = self._contexts.pop(name, None)
        if kept is None:
            return False
        kept.let_go()
        held = min(self.iterations, kept.until) - kept.since
        self.policy.kept(kept.run, kept.tokens * held, now)
        return True

    def run_ended(self, run: RunId, now: Seconds) -> None:
        for name in [name for name, kept in self._contexts.items() if kept.run == run]:
            self.give_up(name, now)

    def let_all_go(self) -> None:
        """Nobody is charged: the policy is not there any more, or the KV is worth nothing."""
        for kept in self._contexts.values():
            kept.let_go()
        self._contexts.clear()

    def next_change(self) -> int | None:
        """After how many iterations the next context can be given up for anybody; None if no other will."""
        later = [kept.until for kept in self._contexts.values() if kept.until > self.iterations]
        return math.ceil(min(later) - self.iterations) if later else None

    def make_room(self, run: RunId | None, now: Seconds) -> bool:
        """Give up one context for a request of that run, or for anybody if None. False if none has to go."""
        contexts = self._contexts
        if not contexts:
            return False
        first = min(contexts, key=lambda name: contexts[name].until)
        if contexts[first].until > self.iterations:
            first = self._last()
            runs, place = self.policy.runs, self.policy.place
            if run is not None and place(runs[contexts[first].run]) <= place(runs[run]):
                return False
        return self.give_up(first, now)

    def _last(self) -> Name:
        runs, place = self.policy.runs, self.policy.place
        return max(self._contexts, key=lambda name: place(runs[self._contexts[name].run]))
