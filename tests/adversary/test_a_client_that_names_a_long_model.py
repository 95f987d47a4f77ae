"""A name of 60 kB in a request does not come back in its refusal."""

from pathlib import Path

import pytest

from support.serving import KEYS, http, running_sidecar

LONGEST_ANSWER = 500
NO_ENGINE = "http://127.0.0.1:1"


@pytest.mark.parametrize("name", ["m" * 60_000, "\0" * 10_000, "\\" * 30_000])
def test_a_refusal_repeats_little_of_the_model_s_name(tmp_path: Path, name: str) -> None:
    with running_sidecar(tmp_path / "sidecar", NO_ENGINE, wait=False) as sidecar:
        answer = http.post(
            f"{sidecar.public}/v1/completions",
            json={"model": name, "prompt": "a", "max_tokens": 1},
            headers={"authorization": f"Bearer {KEYS['gold']}"},
        )
    assert answer.json()["error"]["code"] == "model_not_found"
    assert len(answer.content) < LONGEST_ANSWER
