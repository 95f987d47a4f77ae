"""The workload of agents that take turns: long conversations, tools between the turns, subagents.

A run is a session. Its first prompt is the application's system prompt with its tools, the same for all runs of the
tenant (tenants share nothing in the cache, as behind the sidecar, which salts it), and a task. Each turn yields some
output, a tool call; after a pause the next turn's prompt is all that was said before and what the tool said. In half
of the sessions turns start subagents: each has its own conversation after a system prompt of its own, its turns come
one after the other, and when it is over the parent goes on, reading its answer.

Where the figures are from (shapes only; no data is packaged):

- *turns, first prompt, growth*: 610 sessions of Codex on SWE-bench Pro (Inferact/codex_swebenchpro_traces): calls of a
  session 30 / 57 / 90 at the 50th, 90th and 99th percentile, a lognormal with sigma = ln(57/30) / 1.28; 12.3 k tokens
  in the first prompt, hardly any spread, so nearly all of them shared; 80 k tokens in the last one (median); 17,239
  output tokens in 33 calls; hence 2.3 k tokens more a turn, 520 of them output. 94 % of prompt tokens were cached.
- *short sessions*: what a user's message starts in 4,265 sessions of Claude Code and Codex (TraceLab, arXiv 2606.30560,
  CC BY 4.0): 7.8 calls after a tool on average, 20 at the 90th percentile, 86 at the 99th.
- *pauses*: the same source: a tool call takes 0.13 s (Claude Code) or 0.63 s (Codex) in the median, and about half of
  all tool time is in calls of minutes: a lognormal with median 0.4 s and sigma 2.3, whose time has its median at
  0.4 s * exp(2.3^2) = 79 s. Cut at ten minutes.
- *subagents*: in half of the sessions, which is wanted; that a parent waits for its subagent, as recorded sessions of
  Claude Code show (Weka's traces, in the documentation of NVIDIA's AIPerf, which also has system prompt and tools of 12
  to 17 k tokens). How many there are, and their lengths, are ours.

A session ends when its context would pass `LONGEST` tokens. Lengths are lognormal, in tokens, times `scale`;
times are in seconds. Arrivals are Poisson. The same seed gives the same sessions, whatever their load and tenants.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from justitia_simulator.agents import LogNormal
from justitia_simulator.arrivals import full_engine_seconds, poisson_arrivals
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId, Tokens

LONGEST: Tokens = 100_000
LONGEST_PAUSE: Seconds = 600.0
SUBAGENTS_IN = 0.5
MORE_SUBAGENTS = 0.4
"""Probability that a session with subagents has one more."""


def _around(median: float, sigma: float) -> LogNormal:
    return LogNormal(math.log(median), sigma)


PAUSE_MEDIAN, PAUSE_SIGMA = 0.4, 2.3
TASK = _around(500, 0.8)
NEW_INPUT = _around(600, 1.4)
"""What a tool said: 1.6 k tokens on average."""
OUTPUT = _around(250, 1.2)
"""514 tokens on average."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A kind of conversation: tokens of its system prompt and tools, and how many turns it has."""

    system: Tokens
    turns: LogNormal


APPLICATIONS = {"coding": Conversation(12_000, _around(30, 0.5)), "assistant": Conversation(12_000, _around(3, 1.5))}
SUBAGENT = Conversation(6_000, _around(8, 0.6))


@dataclass(slots=True)
class _Session:
    """Draws one run."""

    rng: random.Random
    system: str
    scale: float
    stages: list[WorkloadStage] = field(default_factory=list)
    contexts: int = 0

    def tokens(self, length: LogNormal) -> Tokens:
        return self.scaled(length.at(self.rng.gauss(0.0, 1.0)))

    def scaled(self, tokens: float) -> Tokens:
        return max(1, round(tokens * self.scale))

    def pause(self) -> Seconds:
        drawn = PAUSE_MEDIAN * math.exp(PAUSE_SIGMA * self.rng.gauss(0.0, 1.0))
        return round(min(drawn, LONGEST_PAUSE), 3)

    def converse(self, kind: Conversation, system: str, subagents: int) -> Tokens:
        """Add the turns of a conversation. Returns the length of its last answer."""
        context, self.contexts = f"c{self.contexts}", self.contexts + 1
        turns = max(kind.turns.at(self.rng.gauss(0.0, 1.0)), 2 if subagents else 1)
        starts = sorted(self.rng.choices(range(turns - 1), k=subagents)) if subagents else []
        prefix, known, answer, told = system, self.scaled(kind.system), 0, 0
        for turn in range(turns):
            new = told or self.tokens(NEW_INPUT if turn else TASK)
            output = self.tokens(OUTPUT)
            if turn and known + new + output > LONGEST * self.scale:
                break
            delay = self.pause() if self.stages and not told else 0.0
            request = WorkloadRequest(known + new, output, prefix, known, {}, context)
            self.stages.append(WorkloadStage((request,), delay))
            prefix, known, answer, told = context, known + new + output, output, 0
            while starts and starts[0] == turn:
                starts.pop(0)
                told += self.converse(SUBAGENT, f"{self.system}/subagent", 0)
        return answer


def session(application: str, name: str, tenant: str, rng: random.Random, *, scale: float = 1.0) -> WorkloadRun:
    """A session of one of :data:`APPLICATIONS`, which arrives at 0."""
    subagents = 0
    if rng.random() < SUBAGENTS_IN:
        subagents = 1
        while rng.random() < MORE_SUBAGENTS:
            subagents += 1
    drawn = _Session(rng, f"{tenant}/{application}", scale)
    drawn.converse(APPLICATIONS[application], drawn.system, subagents)
    return WorkloadRun(RunId(name), TenantId(tenant), ApplicationId(application), 0.0, tuple(drawn.stages))


def turns(
    sessions: int,
    *,
    seed: int,
    load: float,
    profile: EngineProfile,
    tenants: Mapping[str, float],
    scale: float = 1.0,
) -> list[WorkloadRun]:
    """So many sessions, half of each application, that ask `load` times what the engine can do.

    `tenants`: each with the probability, up to a factor, that a session is its. The engine can do what it does with its
    KV space always full and every prefix in its cache (:func:`ideal_seconds`). Raises ValueError for a scale beyond 1.
    """
    if not 0 < scale <= 1:
        raise ValueError(f"scale is {scale:g}: lengths are multiplied by it, so it must be more than 0 and at most 1")
    names = list(APPLICATIONS)
    order = [names[i % len(names)] for i in range(sessions)]
    random.Random(f"{seed}/order").shuffle(order)
    owners = random.Random(f"{seed}/tenants").choices(list(tenants), list(tenants.values()), k=sessions)
    runs = [
        session(order[i], f"r{i}", owners[i], random.Random(f"{seed}/session/{i}"), scale=scale)
        for i in range(sessions)
    ]
    rate = load * sessions / ideal_seconds(runs, profile)
    arrivals = poisson_arrivals(rate, sessions, random.Random(f"{seed}/arrivals"))
    return [replace(run, arrival=round(moment, 3)) for run, moment in zip(runs, arrivals, strict=True)]


def ideal_seconds(runs: Sequence[WorkloadRun], profile: EngineProfile) -> Seconds:
    """Engine time of the runs if no prefix is ever read twice and the KV space is always full."""
    return full_engine_seconds([r for run in runs for r in run.requests], profile, cached=True)


def reusable(runs: Sequence[WorkloadRun]) -> float:
    """The share of prompt tokens that an endless cache would find."""
    requests = [r for run in runs for r in run.requests]
    return sum(r.prefix_tokens for r in requests) / sum(r.prompt_tokens for r in requests)
