"""Agent runs in the size of `engine/workload.py`, with prompts that tell of their cost what `prompts.py` says. Their
stages follow each other at once: the engine is what is waited for, not tools.

Every prompt is text, a word a token, so that it is as long as its call. Those of a run's first stage tell of the run,
whichever comes first. An answer has its call's length, and nothing that predictors see tells it: `max_tokens` is the
same for all. The end token is forbidden until one token is left (`min_tokens`), and then certain (`logit_bias`: vLLM
forbids it whatever it is biased by).
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from justitia_benchmarks.engine.workload import KV_TOKENS, LONGEST, NAMESPACE, small
from justitia_benchmarks.experiments.learning.prompts import FILLER, filler_text, telling_text
from justitia_cli.tiny_model import END, Shape, make_tiny_model
from justitia_predictor.features import Features, FirstRequest, cut
from justitia_sidecar.request.body import TokensPerByte
from justitia_simulator.agents import CLASSES, agent_run
from justitia_simulator.arrivals import scaled_to_load
from justitia_simulator.suite import agent_suite
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, Tokens

LEFT_OUT = ("ALFWI", "DM")
"""Hundreds of runs of sixteen calls one after the other, or of 105, would take longer than all the others."""
SERVED = tuple(name for name in CLASSES if name not in LEFT_OUT)
TENANT = "silver"
MOST_OUTPUT: Tokens = LONGEST * 5 // 6
LONGEST_CONTEXT = LONGEST + MOST_OUTPUT
"""The longest context of a request: its prompt and its `max_tokens`."""
CERTAIN = 100.0
"""The largest `logit_bias`."""
SHAPE = Shape(hidden_size=256, layers=4)
"""Slow enough that runs wait for the engine, and not for what is in front of it, whose order is nobody's."""
GAP: Seconds = 0.05
"""Between past runs: faster than they are served, and slower than the sidecar can look at their first requests."""


@dataclass(frozen=True)
class TellingRun:
    """A run and the texts of its prompts, by its requests' numbers."""

    run: WorkloadRun
    texts: Sequence[str]

    def body(self, number: int) -> Mapping[str, object]:
        """What a client sends."""
        return {"prompt": self.texts[number], **answer(self.run.requests[number].output_tokens)}


def known_of(runs: Sequence[TellingRun], past: Sequence[TellingRun]) -> Mapping[RunId, Features]:
    """What a sidecar that has served the past ones knows of each when its first request comes."""
    tokens_per_byte = TokensPerByte()
    for each in past:
        for text, request in zip(each.texts, each.run.requests, strict=True):
            tokens_per_byte.observe(each.run.application, len(text), request.prompt_tokens)
    found = {}
    for each in runs:
        first = each.texts[0].encode()
        tokens = tokens_per_byte.estimate(each.run.application, len(first))
        found[each.run.id] = Features.of(FirstRequest(cut(first), len(first), tokens, MOST_OUTPUT, 1, 1))
    return found


def answer(tokens: Tokens) -> Mapping[str, object]:
    """What makes an answer end with its `tokens`-th token."""
    return {
        "max_tokens": MOST_OUTPUT,
        "min_tokens": tokens - 1,
        "logit_bias": {str(END): CERTAIN},
        "temperature": 0.0,
    }


def past_rounds(count: int, at_once: int, degree: float, seed: int) -> Iterator[list[TellingRun]]:
    """`count` runs of each class, so many of each in a round. The first round has one of each: what it tells of tokens
    per byte is known to the others.
    """
    for begin, end in pairwise([0, *range(1, count, at_once), count]):
        drawn = [(name, f"{seed}/past/{name}/{number}") for number in range(begin, end) for name in SERVED]
        random.Random(f"{seed}/round/{begin}").shuffle(drawn)
        yield [
            _telling(agent_run(name, key, TENANT, place * GAP, random.Random(key)), key, degree)
            for place, (name, key) in enumerate(drawn)
        ]


def contended(count: int, seed: int, load: float, step: Seconds, degree: float) -> list[TellingRun]:
    """Those of the suite's `count` runs that are of the classes, arriving so that this is the load of an engine with
    such full steps.
    """
    runs = _suite(count, seed, degree)
    arriving = scaled_to_load([each.run for each in runs], load, KV_TOKENS, step)
    return [replace(each, run=run) for each, run in zip(runs, arriving, strict=True)]


def filling(count: int, seed: int, degree: float) -> list[TellingRun]:
    """The same, all there from the beginning: what fills the engine."""
    return [replace(each, run=replace(each.run, arrival=0.0)) for each in _suite(count, seed, degree)]


def _suite(count: int, seed: int, degree: float) -> list[TellingRun]:
    recorded = [run for run in agent_suite(count, seed=seed, tenants={TENANT: 1.0}) if run.application in SERVED]
    return [_telling(run, f"{seed}/run/{run.id.removeprefix('r')}", degree) for run in recorded]


def _telling(recorded: WorkloadRun, key: str, degree: float) -> TellingRun:
    """Cut to size, without tools. `key` seeded the generator that `recorded` was drawn with."""
    run = small(recorded, 0.0)
    rng = random.Random(f"{key}/filler")
    first = len(run.stages[0].requests)
    texts = [
        telling_text(recorded, key, degree, request.prompt_tokens)
        if number < first
        else filler_text(rng, request.prompt_tokens)
        for number, request in enumerate(run.requests)
    ]
    return TellingRun(run, texts)


def application_of(name: str) -> str:
    """The name of a class's application in its namespace, as `small` calls it."""
    return f"{name.lower()}-{TENANT}"


def class_of(application: ApplicationId) -> str:
    """The reverse, with the namespace."""
    return application.removeprefix(f"{NAMESPACE}/").removesuffix(f"-{TENANT}").upper()


def make_model(directory: Path, runs: Sequence[TellingRun]) -> Path:
    """The tiny model with a token for each word of these runs' prompts, and `SHAPE`."""
    make_tiny_model(directory, SHAPE)
    words = sorted({word for each in runs for text in each.texts for word in text.split()} | set(FILLER))
    path = directory / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_tokens([AddedToken(word, single_word=True, lstrip=True) for word in words])
    tokenizer.save(str(path))
    config = directory / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"vocab_size": tokenizer.get_vocab_size()}))
    return directory
