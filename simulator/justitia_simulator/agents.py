"""Runs of the ten agent classes that the Justitia paper serves, drawn so that they measure like recorded ones.

What was recorded per class: calls and stages of a run, mean and 95th percentile of prompt (p) and output (d) tokens
of a call, median, mean and 95th percentile of a run's cost C, and the mean tool time of a run.

p and d are lognormal: the mean m and the 95th percentile q give `sigma = z - sqrt(z^2 - 2 ln(q/m))`, z = 1.645, and
`mu = ln m - sigma^2/2`. Of the variance of ln p and ln d the part `common` is the same for all calls of a run (that
spreads C), and `correlation` ties d to p within a call (that moves the mean of C). Two classes are not lognormal, as
q/m > 3.87 shows, and are mixtures: ALFWorld's steps act or, rarely, think; code generation's tasks are short or,
rarely, long. The tool time is exponential and lies before each stage after the first.

Not recorded, thus ours: self-consistency (SC), five to eight parallel samples of one prompt; lengths as below.
Lengths are in tokens, times in seconds. The same generator state gives the same run.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId, Tokens

Z95 = 1.6449
"""95th percentile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A lognormal length: `exp(mu + sigma * z)` for a standard normal z."""

    mu: float
    sigma: float

    @classmethod
    def fit(cls, mean: float, p95: float) -> Self:
        """The one with that mean and 95th percentile. Raises ValueError where no lognormal has them."""
        spread = Z95**2 - 2 * math.log(p95 / mean)
        if not (p95 > mean and spread >= 0):
            raise ValueError(f"no lognormal has mean {mean} and 95th percentile {p95}: their ratio must be 1 to 3.87")
        sigma = Z95 - math.sqrt(spread)
        return cls(math.log(mean) - sigma**2 / 2, sigma)

    def at(self, z: float) -> Tokens:
        return max(1, round(math.exp(self.mu + self.sigma * z)))


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt and output of a kind of call; see the module for `common` and `correlation`."""

    prompt: LogNormal
    output: LogNormal
    common: float
    correlation: float = 0.0


def lengths(
    prompt: tuple[float, float], output: tuple[float, float], *, common: float, correlation: float = 0.0
) -> Lengths:
    """Lengths from (mean, 95th percentile) of each."""
    return Lengths(LogNormal.fit(*prompt), LogNormal.fit(*output), common, correlation)


class Caller:
    """Draws the calls of one run. What they have in common is drawn first: two traits, standard normal."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng = rng
        self.name = name
        self.prompt_trait = rng.gauss(0.0, 1.0)
        self.output_trait = rng.gauss(0.0, 1.0)

    def call(self, kind: Lengths) -> WorkloadRequest:
        z = self._prompt_z(kind)
        return WorkloadRequest(kind.prompt.at(z), self._output_tokens(kind, z))

    def calls(self, count: int, kind: Lengths) -> tuple[WorkloadRequest, ...]:
        """`count` calls with prompts of their own."""
        return tuple(self.call(kind) for _ in range(count))

    def samples(self, count: int, kind: Lengths, prefix: str) -> tuple[WorkloadRequest, ...]:
        """`count` calls of one prompt, which is a prefix that they share."""
        z = self._prompt_z(kind)
        prompt = kind.prompt.at(z)
        return tuple(
            WorkloadRequest(prompt, self._output_tokens(kind, z), f"{self.name}/{prefix}", prompt) for _ in range(count)
        )

    def _prompt_z(self, kind: Lengths) -> float:
        return _mixed(self.prompt_trait, self.rng.gauss(0.0, 1.0), kind.common)

    def _output_tokens(self, kind: Lengths, prompt_z: float) -> Tokens:
        own = _mixed(self.output_trait, self.rng.gauss(0.0, 1.0), kind.common)
        return kind.output.at(_mixed(prompt_z, own, kind.correlation**2, math.copysign(1.0, kind.correlation)))


def _mixed(one: float, other: float, share: float, sign: float = 1.0) -> float:
    """A standard normal with this share of its variance from `one`."""
    return sign * math.sqrt(share) * one + math.sqrt(1 - share) * other


Calls = tuple[WorkloadRequest, ...]
"""The calls of a stage."""


def equation_verification(caller: Caller) -> list[Calls]:
    """One call that writes the equations, two to four that verify them."""
    kind = lengths((415, 889), (48, 127), common=0.0, correlation=0.65)
    return [caller.calls(1, kind), caller.calls(caller.rng.choices((2, 3, 4), (25, 60, 15))[0], kind)]


def fact_verification(caller: Caller) -> list[Calls]:
    """Two or three calls, one after the other."""
    kind = lengths((1151, 1398), (36, 46), common=0.9)
    count = caller.rng.choices((1, 2, 3, 4), (11, 71, 14, 4))[0]
    return [caller.calls(1, kind) for _ in range(count)]


def code_checking(caller: Caller) -> list[Calls]:
    """One call that writes, three that check."""
    kind = lengths((333, 458), (160, 295), common=0.5)
    return [caller.calls(1, kind), caller.calls(3, kind)]


def alfworld(caller: Caller) -> list[Calls]:
    """Steps in a text world, one after the other: most act in a few words, one in thirteen thinks."""
    act = lengths((2023, 2567), (10.5, 18), common=0.3)
    think = lengths((2023, 2567), (69, 105), common=0.3)
    steps = min(30, max(5, round(caller.rng.gauss(15.7, 3.3))))
    return [caller.calls(1, think if caller.rng.random() < 1 / 13 else act) for _ in range(steps)]


def knowledge_base_verification(caller: Caller) -> list[Calls]:
    """One call that splits the claim into n facts, n that look them up, n that judge."""
    kind = lengths((427, 653), (82, 199), common=0.15, correlation=0.65)
    facts = caller.rng.choices((1, 2, 3, 4, 5, 6, 9), (6, 20, 34, 20, 10, 4, 6))[0]
    return [caller.calls(1, kind), caller.calls(facts, kind), caller.calls(facts, kind)]


def plan_and_execute(caller: Caller) -> list[Calls]:
    """A short question with a long plan, then a long prompt with a shorter answer."""
    plan = lengths((770, 1000), (430, 780), common=0.95, correlation=-0.6)
    execute = lengths((1660, 1980), (130, 280), common=0.95, correlation=-0.6)
    return [caller.calls(1, plan), caller.calls(1, execute)]


def code_generation(caller: Caller) -> list[Calls]:
    """Attempts, one after the other: nine tasks in ten are short, the tenth long with more attempts."""
    if caller.rng.random() < 0.1:
        kind = lengths((2850, 3600), (310, 480), common=0.5)
        attempts = caller.rng.choices((2, 3, 4), (35, 50, 15))[0]
    else:
        kind = lengths((120, 220), (200, 500), common=0.5)
        attempts = caller.rng.choices((1, 2), (76, 24))[0]
    return [caller.calls(1, kind) for _ in range(attempts)]


def self_consistency(caller: Caller) -> list[Calls]:
    """Five to eight samples of one prompt in parallel."""
    kind = lengths((400, 800), (180, 400), common=0.5)
    return [caller.samples(caller.rng.randint(5, 8), kind, "question")]


def map_reduce_summary(caller: Caller) -> list[Calls]:
    """Parts summarised in parallel, groups of summaries merged, the merged ones put together."""
    kind = lengths((578, 1774), (244, 698), common=0.05, correlation=0.45)
    parts = min(45, max(6, round(caller.rng.gauss(19.7, 7.0))))
    return [caller.calls(parts, kind), caller.calls(max(2, round(parts / 5)), kind), caller.calls(1, kind)]


def document_merging(caller: Caller) -> list[Calls]:
    """Drafts of a merged document: every twenty candidates or scores are drawn from one prompt."""
    kind = lengths((2624, 3278), (473, 820), common=0.4)
    return [
        caller.samples(calls, kind, str(stage)) if calls == 20 else caller.calls(calls, kind)
        for stage, calls in enumerate((2, 20, 20, 2, 20, 20, 1, 20))
    ]


@dataclass(frozen=True, slots=True)
class AgentClass:
    """How a class calls the engine. `tool_seconds`: the mean before each stage after the first."""

    draw: Callable[[Caller], list[Calls]]
    tool_seconds: Seconds = 0.0


SMALL = {
    "EV": AgentClass(equation_verification),
    "FV": AgentClass(fact_verification, 2.4 / 1.1),
    "CC": AgentClass(code_checking, 0.4),
    "ALFWI": AgentClass(alfworld, 2.6 / 14.7),
    "KBQAV": AgentClass(knowledge_base_verification, 1.3 / 2),
}
MEDIUM = {
    "PE": AgentClass(plan_and_execute, 25.0),
    "CG": AgentClass(code_generation, 17 / 0.4),
    "SC": AgentClass(self_consistency),
}
LARGE = {"DM": AgentClass(document_merging), "MRS": AgentClass(map_reduce_summary)}
CLASSES = SMALL | MEDIUM | LARGE


def agent_run(application: str, name: str, tenant: str, arrival: Seconds, rng: random.Random) -> WorkloadRun:
    """A run of a class of :data:`CLASSES`, its name in its prefixes."""
    agent = CLASSES[application]
    stages = tuple(
        WorkloadStage(calls, round(rng.expovariate(1 / agent.tool_seconds), 3) if index and agent.tool_seconds else 0.0)
        for index, calls in enumerate(agent.draw(Caller(rng, name)))
    )
    return WorkloadRun(RunId(name), TenantId(tenant), ApplicationId(application), arrival, stages)
