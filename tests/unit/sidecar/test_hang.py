"""An engine hangs when it has work and makes no step for as long as it may, whether or not it answers."""

from pathlib import Path

import pytest

from justitia_sidecar.engine.client import read_metrics
from justitia_sidecar.engine.hang import LONGEST_LOOK, HangWatch, has_work
from justitia_sidecar.engine.view import EngineView

PATIENCE = 10.0


class Probes:
    """One each second, from second 0."""

    def __init__(self, watch: HangWatch) -> None:
        self.watch = watch
        self.now = -1.0

    def answered(self, progress: str | None, *, busy: bool, times: int = 1) -> None:
        for _ in range(times):
            self.now += 1
            self.watch.answered(None if progress is None else (progress,), busy, self.now)

    def silent(self, times: int) -> None:
        for _ in range(times):
            self.now += 1
            self.watch.silent(self.now)


@pytest.fixture
def probes() -> Probes:
    return Probes(HangWatch(PATIENCE))


def test_an_engine_that_steps_or_has_nothing_to_do_does_not_hang(probes: Probes) -> None:
    for step in range(100):
        probes.answered(str(step // 9), busy=True)
        assert not probes.watch.hangs
    probes.answered("11", busy=False, times=100)
    assert not probes.watch.hangs


def test_a_busy_engine_without_a_step_hangs_until_it_steps_again(probes: Probes) -> None:
    probes.answered("5", busy=True, times=10)
    assert not probes.watch.hangs
    probes.answered("5", busy=True)
    assert probes.watch.hangs
    probes.answered("6", busy=True)
    assert not probes.watch.hangs


def test_patience_begins_with_the_work(probes: Probes) -> None:
    probes.answered("5", busy=False, times=100)
    probes.answered("5", busy=True, times=9)
    assert not probes.watch.hangs
    probes.answered("5", busy=True)
    assert probes.watch.hangs


def test_one_that_falls_silent_hangs_and_one_that_starts_does_not(probes: Probes) -> None:
    probes.silent(1000)
    assert not probes.watch.hangs
    probes.answered("0", busy=False)
    probes.silent(9)
    assert not probes.watch.hangs
    probes.silent(1)
    assert probes.watch.hangs


def test_an_engine_that_was_started_again_is_another(probes: Probes) -> None:
    """Its count of steps may be the same: what it worked on is over."""
    probes.answered("0", busy=True)
    probes.silent(20)
    assert probes.watch.hangs
    probes.answered("0", busy=False)
    assert not probes.watch.hangs


@pytest.mark.parametrize("pause", [PATIENCE, 3600.0], ids=["as long as its patience", "a night"])
def test_time_in_which_nobody_looked_is_not_the_engines_silence(probes: Probes, pause: float) -> None:
    probes.answered("5", busy=True, times=3)
    probes.now += pause
    probes.answered("5", busy=True)
    assert not probes.watch.hangs, "it had no time for a step since the process goes on"
    probes.answered("5", busy=True, times=int(PATIENCE - LONGEST_LOOK))
    assert probes.watch.hangs, "and still it makes none"


def test_an_engine_that_has_ended_hangs_no_more_and_the_next_one_starts(tmp_path: Path) -> None:
    """A file that stayed would have the next one ended while it loads its model."""
    file = tmp_path / "hangs"
    probes = Probes(HangWatch(PATIENCE, file))
    probes.answered("0", busy=True)
    probes.silent(10)
    assert file.exists()
    probes.watch.absent(probes.now)
    assert not file.exists()
    probes.silent(1000)
    assert not probes.watch.hangs


def test_the_file_is_there_while_it_hangs(tmp_path: Path) -> None:
    file = tmp_path / "hangs"
    file.touch()
    probes = Probes(HangWatch(PATIENCE, file))
    assert not file.exists(), "what an earlier process saw says nothing of now"
    probes.answered("1", busy=True, times=11)
    assert file.exists()
    probes.answered("2", busy=True)
    assert not file.exists()


def test_without_a_word_of_progress_nothing_is_taken_for_a_hang(probes: Probes) -> None:
    probes.answered(None, busy=True, times=100)
    assert not probes.watch.hangs


@pytest.mark.parametrize(
    ("running", "waiting", "deferred", "owed", "work"),
    [
        (0, 0, 0, 0, False),
        (1, 0, 0, 0, True),
        (0, 1, 0, 0, True),
        (0, 0, 0, 1, True),
        (0, 2, 2, 2, False),
        (0, 2, 1, 2, True),
    ],
    ids=["nothing", "runs", "waits", "owed and not counted yet", "all deferred", "one deferred"],
)
def test_the_engine_says_itself_whether_it_has_work(
    running: int, waiting: int, deferred: int, owed: int, work: bool
) -> None:
    view = EngineView(running=running, waiting=waiting, deferred=deferred)
    assert has_work(view, owed) is work


def test_counts_of_several_engines_add_up() -> None:
    text = """\
vllm:num_requests_running{engine="0"} 1.0
vllm:num_requests_running{engine="1"} 2.0
vllm:num_requests_waiting{engine="0"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 3.0
vllm:cache_config_info{block_size="10",num_gpu_blocks="100",engine="0"} 1.0
"""
    view = read_metrics(text, EngineView())
    assert (view.running, view.waiting, view.deferred, view.for_capacity) == (3, 4, 3, 1)


@pytest.mark.parametrize(
    ("label", "has"), [('enable_prefix_caching="True",', True), ('enable_prefix_caching="False",', False), ("", False)]
)
def test_whether_prefixes_are_found_again_is_what_the_engine_says(label: str, has: bool) -> None:
    text = f'vllm:cache_config_info{{block_size="10",{label}num_gpu_blocks="100",engine="0"}} 1.0\n'
    assert read_metrics(text, EngineView()).prefix_cache is has


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
