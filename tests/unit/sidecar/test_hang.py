"""An engine hangs when it has work and makes no step for as long as it may, whether or not it answers."""

from pathlib import Path

import pytest

from justitia_sidecar.admission import EngineView
from justitia_sidecar.engine import read_metrics
from justitia_sidecar.hang import HangWatch

PATIENCE = 10.0


def test_an_engine_that_steps_or_has_nothing_to_do_does_not_hang() -> None:
    watch = HangWatch(PATIENCE)
    for now in range(100):
        watch.answered(now // 9, busy=True, now=float(now))
        assert not watch.hangs
    for now in range(100, 200):
        watch.answered(11, busy=False, now=float(now))
        assert not watch.hangs


def test_a_busy_engine_without_a_step_hangs_until_it_steps_again() -> None:
    watch = HangWatch(PATIENCE)
    watch.answered(5, busy=True, now=100.0)
    watch.answered(5, busy=True, now=109.9)
    assert not watch.hangs
    watch.answered(5, busy=True, now=110.0)
    assert watch.hangs
    watch.answered(6, busy=True, now=111.0)
    assert not watch.hangs


def test_patience_begins_with_the_work() -> None:
    watch = HangWatch(PATIENCE)
    watch.answered(5, busy=False, now=0.0)
    watch.answered(5, busy=False, now=100.0)
    watch.answered(5, busy=True, now=101.0)
    watch.answered(5, busy=True, now=109.0)
    assert not watch.hangs
    watch.answered(5, busy=True, now=110.0)
    assert watch.hangs


def test_one_that_falls_silent_hangs_and_one_that_starts_does_not() -> None:
    watch = HangWatch(PATIENCE)
    watch.silent(1000.0)
    assert not watch.hangs
    watch.answered(0, busy=False, now=1000.0)
    watch.silent(1009.0)
    assert not watch.hangs
    watch.silent(1010.0)
    assert watch.hangs


def test_an_engine_that_was_started_again_is_another() -> None:
    """Its count of steps may be the same: what it worked on is over."""
    watch = HangWatch(PATIENCE)
    watch.answered(0, busy=True, now=0.0)
    watch.answered(0, busy=True, now=10.0)
    watch.silent(20.0)
    assert watch.hangs
    watch.answered(0, busy=False, now=50.0)
    assert not watch.hangs


def test_an_engine_that_has_ended_hangs_no_more_and_the_next_one_starts(tmp_path: Path) -> None:
    """A file that stayed would have the next one ended while it loads its model."""
    file = tmp_path / "hangs"
    watch = HangWatch(PATIENCE, file)
    watch.answered(0, busy=True, now=0.0)
    watch.silent(10.0)
    assert file.exists()
    watch.absent(11.0)
    assert not file.exists()
    watch.silent(1000.0)
    assert not watch.hangs


def test_the_file_is_there_while_it_hangs(tmp_path: Path) -> None:
    file = tmp_path / "hangs"
    file.touch()
    watch = HangWatch(PATIENCE, file)
    assert not file.exists(), "what an earlier process saw says nothing of now"
    watch.answered(1, busy=True, now=0.0)
    watch.answered(1, busy=True, now=10.0)
    assert file.exists()
    watch.answered(2, busy=True, now=11.0)
    assert not file.exists()


def test_without_a_word_of_progress_nothing_is_taken_for_a_hang() -> None:
    watch = HangWatch(PATIENCE)
    for now in range(100):
        watch.answered(None, busy=True, now=float(now))
        assert not watch.hangs


@pytest.mark.parametrize("missing", ["vllm:iteration_tokens_total_count", "vllm:kv_cache_usage_perc"])
def test_progress_is_known_where_the_engine_tells_all_of_it(missing: str) -> None:
    def progress(steps: int, usage: float, without: str = "") -> object:
        lines = [
            'vllm:cache_config_info{block_size="10",num_gpu_blocks="100",engine="0"} 1.0',
            f'vllm:iteration_tokens_total_count{{engine="0"}} {steps}',
            f'vllm:kv_cache_usage_perc{{engine="0"}} {usage}',
        ]
        text = "\n".join(line for line in lines if not without or not line.startswith(without))
        return read_metrics(text, EngineView()).progress

    assert progress(1, 0.5) == progress(1, 0.5) is not None
    assert len({progress(1, 0.5), progress(2, 0.5), progress(1, 0.6)}) == 3
    assert progress(1, 0.5, without=missing) is None
