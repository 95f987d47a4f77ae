"""A tenant that probes the prefix cache of a real vLLM for what other tenants have sent."""

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from statistics import median

import pytest

from support.serving import BLOCK, KEYS, MODEL, RunningSidecar, Vllm, http

pytestmark = pytest.mark.alone

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
NAMES = ("cache_salt", r"cache\u005fsalt")
"""Two ways to write one name."""

LONG = 40 * BLOCK + 1
"""Tokens of a prompt. The KV space holds three such prompts, so a probe of one finds it still cached."""

ROUNDS = 15
TOLD = 0.7
"""A seen prompt's time to its first token in parts of an unseen one's, below which anybody can tell them apart."""

ONE_GROUP = [
    {"name": "gold", "weight": 4, "prefixGroup": "metals"},
    {"name": "silver", "weight": 1, "prefixGroup": "metals"},
]

Probe = Callable[[list[int]], float]


@pytest.fixture(scope="module")
def prompts() -> Iterator[list[int]]:
    """Prompts that nobody has sent."""
    rng = random.Random(f"probing {time.time_ns()}")
    return ([rng.randrange(5, 500) for _ in range(LONG)] for _ in itertools.count())


def bearer(tenant: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[tenant]}", "content-type": "application/json"}


def asked(path: str, prompt: list[int], extra: str = "", end: str = "}") -> bytes:
    """The bytes of a request for one token. `extra` stands behind all other members."""
    text = " ".join(f"w{token}" for token in prompt[: LONG // 8])
    what = {"prompt": prompt} if path == COMPLETIONS else {"messages": [{"role": "user", "content": text}]}
    return f"{json.dumps({'model': MODEL, 'max_tokens': 1, **what})[:-1]}{extra}{end}".encode()


def cached(url: str, path: str, body: bytes, headers: dict[str, str]) -> int:
    """How many tokens of the prompt the engine says it had."""
    answer = http.post(url + path, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return (answer.json()["usage"]["prompt_tokens_details"] or {}).get("cached_tokens") or 0


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_a_tenant_finds_its_own_prompts_and_nobody_elses(
    sidecar: RunningSidecar, prompts: Iterator[list[int]], path: str
) -> None:
    body = asked(path, next(prompts))
    found = [cached(sidecar.public, path, body, bearer(tenant)) for tenant in ("gold", "silver", "gold", "silver")]
    assert found[:2] == [0, 0]
    assert min(found[2:]) >= BLOCK


def test_tenants_that_the_pools_owner_put_into_one_group_share(
    sidecar: RunningSidecar, prompts: Iterator[list[int]]
) -> None:
    before, after = asked(COMPLETIONS, next(prompts)), asked(COMPLETIONS, next(prompts))
    assert cached(sidecar.public, COMPLETIONS, before, bearer("gold")) == 0
    sidecar.reconfigure(tenants=ONE_GROUP)
    assert cached(sidecar.public, COMPLETIONS, before, bearer("silver")) == 0
    assert cached(sidecar.public, COMPLETIONS, after, bearer("gold")) == 0
    assert cached(sidecar.public, COMPLETIONS, after, bearer("silver")) == LONG - 1
    sidecar.reconfigure()
    assert cached(sidecar.public, COMPLETIONS, after, bearer("silver")) == 0


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_a_salt_that_clients_agree_on_has_no_effect(
    sidecar: RunningSidecar, prompts: Iterator[list[int]], path: str
) -> None:
    values, ends = ('"shared"', '""', "null", "[1]"), ("}", " \r\n} \t\n")
    for name, value, end in itertools.product(NAMES, values, ends):
        prompt = next(prompts)
        body = asked(path, prompt, f',"{name}":{value}', end)
        assert [cached(sidecar.public, path, body, bearer(tenant)) for tenant in ("gold", "silver")] == [0, 0]
        assert cached(sidecar.public, path, asked(path, prompt), bearer("gold")) >= BLOCK


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
@pytest.mark.parametrize("name", NAMES)
def test_the_engine_reads_the_last_of_several_salts(
    vllm: Vllm, prompts: Iterator[list[int]], path: str, name: str
) -> None:
    """What the splice relies on."""
    prompt, headers = next(prompts), {"content-type": "application/json"}

    def found(first: str, last: str) -> int:
        return cached(vllm.url, path, asked(path, prompt, f',"{name}":"{first}","cache_salt":"{last}"'), headers)

    assert found("a", "x") == 0
    assert found("b", "x") >= BLOCK
    assert found("x", "y") == 0


# The time of a first token.


def probing(url: str, headers: dict[str, str]) -> Probe:
    def probe(prompt: list[int]) -> float:
        body = json.dumps({"model": MODEL, "prompt": prompt, "max_tokens": 1, "stream": True}).encode()
        begun = time.perf_counter()
        with http.stream("POST", url + COMPLETIONS, content=body, headers=headers) as answer:
            pieces = answer.iter_bytes()
            first = next(pieces)
            taken = time.perf_counter() - begun
            assert b"".join((first, *pieces)).endswith(b"data: [DONE]\n\n")
        return taken

    return probe


def seen_to_unseen(victim: Probe, attacker: Probe, prompts: Iterator[list[int]]) -> float:
    """How long the attacker waits for the first token of a prompt that the victim has sent, in parts of what it waits
    for one that nobody has sent: the median of pairs, whose first is the one or the other in turns.
    """
    ratios = []
    for number in range(ROUNDS):
        seen, unseen = next(prompts), next(prompts)
        victim(seen)
        if number % 2:
            base = attacker(unseen)
            ratios.append(attacker(seen) / base)
        else:
            probed = attacker(seen)
            ratios.append(probed / attacker(unseen))
    return median(ratios)


def test_the_time_of_a_first_token_tells_nothing_of_other_tenants(
    sidecar: RunningSidecar, prompts: Iterator[list[int]]
) -> None:
    gold, silver = (probing(sidecar.public, bearer(tenant)) for tenant in ("gold", "silver"))
    between = seen_to_unseen(gold, silver, prompts)
    within = seen_to_unseen(silver, silver, prompts)
    assert within < TOLD
    assert abs(1 - between) < (1 - within) / 2


def test_where_prompts_are_shared_the_time_tells(
    vllm: Vllm, sidecar: RunningSidecar, prompts: Iterator[list[int]]
) -> None:
    """Negative control: tenants of one group, and clients of the engine itself."""
    anybody = probing(vllm.url, {"content-type": "application/json"})
    assert seen_to_unseen(anybody, anybody, prompts) < TOLD
    sidecar.reconfigure(tenants=ONE_GROUP)
    gold, silver = (probing(sidecar.public, bearer(tenant)) for tenant in ("gold", "silver"))
    assert seen_to_unseen(gold, silver, prompts) < TOLD
