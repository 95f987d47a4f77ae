"""What tunes a policy: set, back to its default, refused."""

import math

import pytest

from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.estimate import FIRST_ESTIMATE
from justitia_scheduling.core.gps import in_kv_token_time
from justitia_scheduling.core.model import Run
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.tailslope import GAMMA
from justitia_scheduling.policies.tiered import THETA, THETA_LEARNED, TieredJustitia
from justitia_scheduling.policies.uniboost import UniBoost
from justitia_vocabulary.policies import HYSTERESIS, Knob
from justitia_vocabulary.units import ApplicationId, RunId, TenantId

CAPACITY = 1000


def policy(name: str) -> Policy:
    made = build_policy(name, KVTokenTimeCost())
    made.set_capacity(CAPACITY, 0.0)
    return made


def uniboost() -> UniBoost:
    made = policy("uniboost")
    assert isinstance(made, UniBoost)
    return made


def test_who_has_which_knob() -> None:
    assert {name: set(made.knobs) for name in POLICIES if (made := policy(name)).knobs} == {
        "TieredJustitia": {Knob.BURST, Knob.HEARTBEAT, Knob.STRETCH, Knob.GAMMA_FLOOR, Knob.GAMMA_CEILING},
        "UniBoost": {Knob.GAMMA_FLOOR, Knob.GAMMA_CEILING, Knob.HYSTERESIS},
        "DistBoost": {Knob.GAMMA_FLOOR, Knob.GAMMA_CEILING},
    }


@pytest.mark.parametrize("knob", Knob)
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_takes_its_own_knobs_and_refuses_others_by_both_names(name: str, knob: Knob) -> None:
    tuned = policy(name)
    if knob in tuned.knobs:
        tuned.tune({knob: 1.0})
    else:
        with pytest.raises(ValueError, match=rf"{type(tuned).__name__} has no {knob.value}"):
            tuned.tune({knob: 1.0})


def tiered() -> TieredJustitia:
    made = policy("tiered-justitia")
    assert isinstance(made, TieredJustitia)
    return made


def stretched(tuned: TieredJustitia, run: str, predicted: float | None) -> float:
    """The stretched tag of a run that arrives, in multiples of its estimate."""
    name = RunId(run)
    tuned.run_arrived(Run(name, TenantId("t"), ApplicationId("a"), predicted), 0.0)
    return in_kv_token_time(tuned.stretched_tag(tuned.runs[name])) / (predicted or FIRST_ESTIMATE)


def test_a_stretch_counts_for_runs_that_arrive_after_it_was_set() -> None:
    tuned = tiered()
    assert stretched(tuned, "told", 100.0) == THETA
    assert stretched(tuned, "mean", None) == THETA_LEARNED
    tuned.tune({Knob.STRETCH: 7.0})
    assert stretched(tuned, "told later", 100.0) == 7
    assert stretched(tuned, "mean later", None) == 7
    assert in_kv_token_time(tuned.stretched_tag(tuned.runs[RunId("told")])) == THETA * 100
    tuned.tune({})
    assert stretched(tuned, "told last", 100.0) == THETA


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [(Knob.STRETCH, 0.0, "no stretch of 0: it must be positive"), (Knob.STRETCH, math.nan, "no stretch of nan")],
)
def test_what_cannot_be_is_refused_and_changes_nothing(knob: Knob, value: float, words: str) -> None:
    tuned = tiered()
    tuned.tune({Knob.BURST: 3.0})
    with pytest.raises(ValueError, match=words):
        tuned.tune({Knob.BURST: 4.0, knob: value})
    assert tuned.burst == 3
    assert stretched(tuned, "run", 1.0) == THETA


def test_the_burst_is_what_is_set_until_none_is() -> None:
    tuned = tiered()
    derived = tuned.burst
    tuned.tune({Knob.BURST: derived / 2})
    assert tuned.burst == derived / 2
    tuned.tune({})
    assert tuned.burst == derived


def test_what_is_not_named_goes_back_to_its_default() -> None:
    tuned = uniboost()
    tuned.tune({Knob.GAMMA_FLOOR: 2.0, Knob.HYSTERESIS: 0.5})
    assert (tuned.report().gamma, tuned.delta) == (2.0, 0.5)
    tuned.tune({Knob.GAMMA_CEILING: 0.05})
    assert (tuned.report().gamma, tuned.delta) == (0.05, HYSTERESIS)
    tuned.tune({})
    assert tuned.report().gamma == GAMMA


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({Knob.GAMMA_FLOOR: 3.0, Knob.GAMMA_CEILING: 2.0, Knob.HYSTERESIS: 1.0}, "gammaFloor and gammaCeiling"),
        ({Knob.GAMMA_FLOOR: 0.0}, "gammaFloor"),
        ({Knob.GAMMA_CEILING: float("inf")}, "gammaCeiling"),
        ({Knob.GAMMA_FLOOR: 1.0, Knob.HYSTERESIS: -1.0}, "hysteresis"),
        ({Knob.GAMMA_FLOOR: 1.0, Knob.HYSTERESIS: float("nan")}, "hysteresis"),
        ({Knob.GAMMA_FLOOR: 1.0, Knob.HYSTERESIS: 1.0, Knob.BURST: 1.0}, "burst"),
    ],
)
def test_a_value_that_cannot_be_changes_nothing(values: dict[Knob, float], named: str) -> None:
    tuned = uniboost()
    tuned.tune({Knob.GAMMA_FLOOR: 2.0, Knob.HYSTERESIS: 0.5})
    with pytest.raises(ValueError, match=rf"UniBoost .*{named}"):
        tuned.tune(values)
    assert (tuned.report().gamma, tuned.delta) == (2.0, 0.5)


@pytest.mark.parametrize(
    ("knob", "value"),
    [(Knob.BURST, -1.0), (Knob.BURST, float("nan")), (Knob.HEARTBEAT, 0.0), (Knob.HEARTBEAT, float("nan"))],
)
def test_a_burst_or_a_heartbeat_that_cannot_be_changes_nothing(knob: Knob, value: float) -> None:
    tuned = policy("tiered-justitia")
    before = tuned.report()
    with pytest.raises(ValueError, match=rf"TieredJustitia .*{knob.value}"):
        tuned.tune({Knob.BURST: 0.0, knob: value})
    assert tuned.report() == before
