"""An answer of a wanted length that only the engine is told, as `make bench-learning-engine` asks for it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from justitia_benchmarks.engine_learning.workload import MOST_OUTPUT, answer
from support.serving import KEYS, MODEL, RunningSidecar, http

LENGTHS = (1, 2, 7, 60, 300)


def completed(sidecar: RunningSidecar, tokens: int, **more: Any) -> tuple[int, str]:
    """Tokens of an answer, and why it ended."""
    body = {"model": MODEL, "prompt": "what comes next", **answer(tokens), **more}
    headers = {"authorization": f"Bearer {KEYS['gold']}"}
    given = http.post(f"{sidecar.public}/v1/completions", json=body, headers=headers).raise_for_status().json()
    return given["usage"]["completion_tokens"], given["choices"][0]["finish_reason"]


def test_answers_beside_each_other_end_where_they_should(sidecar: RunningSidecar) -> None:
    with ThreadPoolExecutor(len(LENGTHS)) as threads:
        found = list(threads.map(lambda tokens: completed(sidecar, tokens), LENGTHS))
    assert found == [(tokens, "stop") for tokens in LENGTHS]


@pytest.mark.parametrize("without", ["min_tokens", "logit_bias"])
def test_neither_part_of_it_would_do_alone(sidecar: RunningSidecar, without: str) -> None:
    neutral: dict[str, Any] = {"min_tokens": 0, "logit_bias": {}}
    assert completed(sidecar, 60, **{without: neutral[without]})[0] != 60


def test_the_bound_is_the_same_for_all() -> None:
    assert {answer(tokens)["max_tokens"] for tokens in LENGTHS} == {MOST_OUTPUT}
