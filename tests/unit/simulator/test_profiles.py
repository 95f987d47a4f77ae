"""Engine profiles: step times against what was measured, and files."""

from pathlib import Path

import pytest

from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.profiles import PROFILES, ProfileError, find_profile, write_profile

# Median time of all linear layers, rotary embedding, norms and activations of Llama-2-7B, 32 layers, one GPU, in ms by
# tokens of the step: Vidur's profiling data (Agrawal et al. 2024).
A100 = {1: 9.28, 16: 9.18, 64: 9.70, 128: 12.24, 192: 15.92, 256: 17.81, 512: 33.36, 768: 46.03, 1024: 67.94,
        1536: 98.98, 2048: 133.42, 4096: 258.38}  # fmt: skip
H100 = {1: 5.60, 16: 5.79, 64: 5.86, 128: 6.37, 192: 7.41, 256: 9.15, 512: 11.98, 768: 18.82, 1024: 21.02, 1536: 33.38,
        2048: 40.32, 4096: 83.47}  # fmt: skip


@pytest.mark.parametrize("name", ["a10g-llama2-7b", "a10g-llama2-7b-vllm"])
def test_the_a10g_profiles_have_the_measured_step_times(name: str) -> None:
    timing = PROFILES[name].timing
    assert timing.step(256, 0, 0) == pytest.approx(0.040 + 256 * 0.25e-3)
    one = timing.step(0, 19, 7296)
    assert one == pytest.approx(0.030 + 19 * 0.08e-3 + 7296 * 0.00107e-3)
    assert timing.step(0, 19, 2 * 7296 + 19, 2) == pytest.approx(2 * one + 19 * 0.00107e-3)


def test_the_a10g_reads_weights_and_kv_no_faster_than_its_memory_can() -> None:
    timing = PROFILES["a10g-llama2-7b"].timing
    alone = timing.step(0, 1, 0)
    assert alone > 13.5e9 / 600e9
    assert timing.step(0, 1, 1000) - alone > 1000 * 0.524e6 / 600e9


@pytest.mark.parametrize(
    ("name", "measured"),
    [("a100-40g-llama2-7b", A100), ("a100-80g-llama2-7b", A100), ("h100-llama2-7b", H100)],
)
def test_layer_times_are_within_15_percent_of_the_measured_and_5_percent_on_average(
    name: str, measured: dict[int, float]
) -> None:
    timing = PROFILES[name].timing
    overhead = 7.5e-3
    errors = [(timing.step(0, n, 0) - overhead) / (ms / 1000) - 1 for n, ms in measured.items()]
    assert max(map(abs, errors)) < 0.15
    assert sum(map(abs, errors)) / len(errors) < 0.05


def test_layer_times_count_prompt_tokens_and_decoding_requests_alike_and_kv_reads_besides() -> None:
    timing = PROFILES["a100-80g-llama2-7b"].timing
    assert timing.step(200, 56, 0) == timing.step(0, 256, 0) == pytest.approx(0.0178 + 0.0075)
    assert timing.step(200, 56, 10_000) - timing.step(200, 56, 0) == pytest.approx(10_000 * 3.0e-7)


def test_only_the_a10g_profile_says_that_it_was_validated() -> None:
    assert [name for name, profile in PROFILES.items() if profile.validated] == ["a10g-llama2-7b"]


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_profile_comes_back_from_its_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    write_profile(PROFILES[name], file)
    assert find_profile(str(file)) == PROFILES[name]


def test_an_unknown_name_lists_those_that_are_known() -> None:
    with pytest.raises(
        ValueError, match=r"unknown engine 'b200': choose one of a100-40g-llama2-7b, .*, or a profile's"
    ):
        find_profile("b200")


TIMING = '{"type": "linear", "per_step": 0.01, "per_prefill_token": 0.001, "per_decode": 0.001, "per_kv_token": 0}'


def test_a_file_may_leave_out_what_has_a_default(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(f'{{"name": "mine", "timing": {TIMING}, "kv_tokens": 1000}}')
    profile = find_profile(str(tmp_path / "p.json"))
    assert (profile.admission, profile.block_size, profile.validated) == (AdmissionRule.RESERVE, 1, False)
    assert profile.timing.step(10, 2, 0) == pytest.approx(0.01 + 10 * 0.001 + 2 * 0.001)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "truncated"),
        (f'{{"name": "x", "timing": {TIMING}}}', "kv_tokens"),
        (f'{{"name": "x", "timing": {TIMING}, "kv_tokens": 0}}', r"\$\.kv_tokens"),
        (f'{{"name": "x", "timing": {TIMING}, "kv_tokens": 10, "blocks": 4}}', "blocks"),
        (f'{{"name": "x", "timing": {TIMING}, "kv_tokens": 10, "admission": "greedy"}}', r"\$\.admission"),
        ('{"name": "x", "timing": {"type": "magic"}, "kv_tokens": 10}', r"\$\.timing"),
        (
            f'{{"name": "x", "timing": {TIMING}, "kv_tokens": 10, "admission": "peak", "block_size": 16}}',
            "'peak' needs block_size 1",
        ),
        (
            f'{{"name": "x", "timing": {TIMING}, "kv_tokens": 10, "front": {{"latency": 0.1}}}}',
            "a front needs a token_budget",
        ),
        (
            '{"name": "x", "timing": {"type": "layers", "layers": [[8, 1], [4, 2]], "per_kv_token": 0}, '
            '"kv_tokens": 9}',
            "growing tokens",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(ProfileError, match=rf"bad\.json: .*{message}"):
        find_profile(str(file))
