"""The controller of gamma on a plant that is known: it settles where the objective holds, and says where none does."""

import json
import math

import pytest

from justitia_scheduling.objectives.objective import Direction, Objective
from justitia_scheduling.objectives.observations import Observations
from justitia_scheduling.objectives.slo import CONFIRM, PERIOD, REACH, GammaController, GammaDecision
from justitia_vocabulary.objectives import MetricName, ObjectiveState
from support.slo_plant import SPREAD, Median, Plant, missing, normal_quantile, turns

FIRST_TOKEN = Objective(MetricName.TIME_TO_FIRST_TOKEN, 0.9, 1.0, 300.0)
TAIL = Objective(MetricName.REQUEST_COMPLETION, 0.99, 5.0, 300.0)
MIDDLE = Objective(MetricName.REQUEST_COMPLETION, 0.95, 5.0, 300.0)


def power(at: float, gain: float) -> Median:
    """A median of `at` seconds for gamma = .1, growing with gamma as gamma^gain."""
    return lambda gamma, now: at * (gamma / 0.1) ** gain


class WrongWay(Objective):
    """Negative control: gamma is moved the wrong way for it."""

    @property
    def direction(self) -> Direction:
        return Direction.UP


class Nervous(GammaController):
    """Negative control: judges its moves by what arrived before them."""

    def step(self, now: float, seen: Observations, estimate: float, replicas: int = 1) -> GammaDecision:
        self.restore(self.state() | {"moved": None})
        return super().step(now, seen, estimate, replicas)


def settles(objective: Objective, gain: float, seed: int) -> bool:
    """From five minutes on the objective holds in truth, gamma is all but still, and turns once in two minutes."""
    median = power(2.0, gain)
    plant = Plant(GammaController(), {"o": (objective, median)}, seed=seed).run(1200)
    late = plant.gammas(300)
    held = [missing(objective, median(gamma, 0.0)) <= objective.allowed for gamma in late]
    return sum(held) >= 0.95 * len(held) and max(late) / min(late) < 1.6 and turns(late) <= 8


@pytest.mark.parametrize("gain", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_settles_where_the_objective_holds_whatever_the_plants_gain(gain: float, seed: int) -> None:
    assert settles(FIRST_TOKEN, gain, seed)


@pytest.mark.parametrize("seed", range(3))
def test_the_check_sees_a_controller_that_moves_the_wrong_way(seed: int) -> None:
    assert not settles(WrongWay(MetricName.TIME_TO_FIRST_TOKEN, 0.9, 1.0, 300.0), 1.0, seed)


def test_moves_that_are_judged_by_what_came_before_overshoot() -> None:
    def lowest(controller: GammaController) -> float:
        return min(Plant(controller, {"o": (FIRST_TOKEN, power(2.0, 1.0))}).run(120).gammas(0))

    assert lowest(Nervous()) < 0.5 * lowest(GammaController())


@pytest.mark.parametrize("seed", range(3))
def test_after_a_step_of_load_it_holds_within_a_minute(seed: int) -> None:
    def median(gamma: float, now: float) -> float:
        return (0.2 if now < 300 else 4.0) * gamma / 0.1

    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, median)}, seed=seed).run(300)
    assert plant.gamma == 0.1, "equation 9 is left alone while the objective holds"
    plant.run(60)
    assert missing(FIRST_TOKEN, median(plant.gamma, 360.0)) <= FIRST_TOKEN.allowed


SLOW = Objective(MetricName.REQUEST_COMPLETION, 0.9, 40.0, 3600.0)


class Timid(GammaController):
    """Negative control: its moves do not depend on how long they take to show."""

    def step(self, now: float, seen: Observations, estimate: float, replicas: int = 1) -> GammaDecision:
        self.restore(self.state() | {"gave_way": True})
        return super().step(now, seen, estimate, replicas)


def held_after(controller: GammaController, gain: float, seed: int) -> float:
    """Seconds from a five-fold step of load until the slow objective holds in truth; from five minutes on it does."""

    def median(gamma: float, now: float) -> float:
        return (8.0 if now < 600 else 40.0) * (gamma / 0.1) ** gain

    plant = Plant(controller, {"o": (SLOW, median)}, rate=5.0, seed=seed).run(2400)
    held = [(t, missing(SLOW, median(gamma, t)) <= SLOW.allowed) for t, gamma, _ in plant.steps if t > 600]
    assert all(holds for t, holds in held if t > 900)
    late = plant.gammas(1500)
    assert max(late) / min(late) < 1.6
    return next(t for t, holds in held if holds) - 600


@pytest.mark.parametrize("gain", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_what_takes_forty_seconds_to_show_holds_within_a_minute_of_a_step_too(gain: float, seed: int) -> None:
    assert held_after(GammaController(), gain, seed) <= 60


@pytest.mark.parametrize("seed", range(3))
def test_the_check_sees_moves_that_are_small_whatever_they_take_to_show(seed: int) -> None:
    assert held_after(Timid(), 1.0, seed) > 60


def test_it_gives_way_when_the_load_goes_until_equation_9_has_its_way() -> None:
    def median(gamma: float, now: float) -> float:
        return (4.0 if now < 300 else 0.1) * gamma / 0.1

    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, median)}).run(300)
    assert plant.gamma < 0.05
    plant.run(1200)
    assert plant.gamma == 0.1


def test_a_missed_p99_takes_gamma_up_and_at_most_to_three_times_the_estimate() -> None:
    reached = Plant(GammaController(), {"o": (TAIL, power(3.0, -1.0))}).run(900)
    assert missing(TAIL, power(3.0, -1.0)(reached.gamma, 0.0)) <= TAIL.allowed
    assert 0.1 < reached.gamma <= REACH * 0.1 * (1 + 1e-9)
    beyond = Plant(GammaController(), {"o": (TAIL, power(30.0, -1.0))}).run(900)
    assert beyond.gamma == pytest.approx(REACH * 0.1)
    assert beyond.steps[-1][2].standings["o"].state is ObjectiveState.UNATTAINABLE


def test_an_estimate_that_falls_under_overload_does_not_draw_the_floor_down() -> None:
    plant = Plant(
        GammaController(),
        {"o": (TAIL, power(30.0, -1.0))},
        estimate=lambda now: 0.1 if now < 60 else 0.1 * 0.97 ** (now - 60),
    ).run(600)
    assert plant.gamma == pytest.approx(REACH * 0.1)


def test_a_ceiling_comes_down_from_gamma_in_effect_wherever_the_estimate_has_fallen() -> None:
    plant = Plant(
        GammaController(), {"o": (FIRST_TOKEN, power(1.5, 1.0))}, estimate=lambda now: 0.02 if now > 5 else 0.1
    )
    plant.run(300)
    assert plant.gamma == 0.02, "equation 9 had done enough"


def test_objectives_that_ask_for_the_opposite_are_unattainable_and_gamma_stands_between() -> None:
    plant = Plant(GammaController(), {"first": (FIRST_TOKEN, power(2.0, 1.0)), "tail": (TAIL, power(6.0, -0.5))}).run(
        1200
    )
    late = [decision for moment, _, decision in plant.steps if moment > 600]
    said = {key: sum(d.standings[key].state is not ObjectiveState.MET for d in late) for key in plant.objectives}
    assert min(said.values()) >= 0.8 * len(late)
    assert sum(any(s.opposed for s in d.standings.values()) for d in late) >= 0.5 * len(late)
    gammas = plant.gammas(600)
    assert max(gammas) / min(gammas) < 3


def test_of_two_that_pull_apart_the_heavier_gives_way_less() -> None:
    def settled(weight: float) -> float:
        first = Objective(MetricName.TIME_TO_FIRST_TOKEN, 0.9, 1.0, 300.0, weight)
        plant = Plant(GammaController(), {"first": (first, power(4.0, 1.0)), "tail": (TAIL, power(6.0, -0.5))}).run(
            1200
        )
        return math.exp(sum(math.log(g) for g in plant.gammas(600)) / len(plant.gammas(600)))

    assert settled(8.0) < settled(0.125)


@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_at_p95_the_sign_is_measured(gain: float) -> None:
    median = power(3.5, gain)
    plant = Plant(GammaController(), {"o": (MIDDLE, median)}).run(1200)
    last = plant.gammas(1100)
    assert missing(MIDDLE, median(sorted(last)[len(last) // 2], 0.0)) <= MIDDLE.allowed


def test_what_gamma_does_not_change_is_unattainable_with_the_replicas_that_would_do() -> None:
    """Twenty requests a second of .08 s ask for 1.6 engines: two at the usual load of .8, one is there."""
    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, power(3.0, 0.0))}, rate=20.0, engine_time=0.08).run(300)
    decision = plant.steps[-1][2]
    assert decision.standings["o"].state is ObjectiveState.UNATTAINABLE
    assert decision.replicas == decision.needed == 2
    assert plant.gamma == GammaController().lowest


def test_it_is_not_called_unattainable_before_a_minute_at_the_end_of_gammas_reach() -> None:
    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, power(3.0, 0.0))}).run(600)
    at_the_end = next(moment for moment, gamma, _ in plant.steps if gamma == GammaController().lowest)
    said = next(t for t, _, decision in plant.steps if decision.standings["o"].state is ObjectiveState.UNATTAINABLE)
    assert said >= at_the_end + CONFIRM


def test_what_is_within_its_budget_is_not_unattainable_though_gamma_is_at_the_end_of_its_reach() -> None:
    """7 % miss the bound, a tenth may, control aims at a twentieth."""
    flat = power(math.exp(-normal_quantile(0.93) * SPREAD), 0.0)
    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, flat)}, rate=20.0).run(600)
    assert plant.gamma == GammaController().lowest
    said = [decision.standings["o"].state for moment, _, decision in plant.steps if moment > 300]
    assert said.count(ObjectiveState.UNATTAINABLE) <= 0.1 * len(said)


def test_what_misses_on_an_idle_engine_would_not_be_helped_by_replicas() -> None:
    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, power(3.0, 0.0))}, rate=10.0, engine_time=0.01).run(300)
    decision = plant.steps[-1][2]
    assert (decision.standings["o"].state, decision.replicas) == (ObjectiveState.UNATTAINABLE, None)


@pytest.mark.parametrize(("engine_time", "needed"), [(0.01, 0.125), (0.04, 0.5), (0.16, 2.0)])
def test_what_the_load_needs_is_told_while_nothing_is_missed(engine_time: float, needed: float) -> None:
    """Ten requests a second at the usual load of .8."""
    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, power(0.1, 0.0))}, rate=10.0, engine_time=engine_time).run(300)
    decision = plant.steps[20][2]
    assert decision.replicas is None
    assert decision.needed == pytest.approx(needed, rel=0.25)


def test_states_follow_the_budget() -> None:
    def state(median: float) -> ObjectiveState | None:
        plant = Plant(GammaController(0.1, 0.1), {"o": (FIRST_TOKEN, power(median, 0.0))}).run(40)
        return plant.steps[-1][2].standings["o"].state

    at_the_percentile = math.exp(-normal_quantile(0.9) * SPREAD)
    assert state(0.7 * at_the_percentile) is ObjectiveState.MET
    assert state(1.2 * at_the_percentile) is ObjectiveState.MISSED
    nothing = GammaController().step(0.0, Observations({"o": FIRST_TOKEN}), 0.1)
    assert nothing.standings["o"].state is None
    assert (nothing.replicas, nothing.needed) == (None, None)


def test_a_restart_from_saved_state_goes_on_as_if_nothing_had_happened() -> None:
    def plant() -> Plant:
        return Plant(
            GammaController(), {"first": (FIRST_TOKEN, power(2.0, 1.0)), "tail": (TAIL, power(6.0, -0.5))}
        ).run(200)

    through, restarted = plant(), plant()
    saved = json.loads(json.dumps([restarted.controller.state(), restarted.seen.state()]))
    restarted.controller = GammaController()
    restarted.seen = Observations({key: objective for key, (objective, _) in restarted.objectives.items()})
    restarted.controller.restore(saved[0])
    restarted.seen.restore(saved[1])
    assert restarted.run(300).steps == through.run(300).steps


def test_a_fresh_controllers_state_is_json_and_bounds_of_the_pool_win_over_saved_ones() -> None:
    saved = json.loads(json.dumps(GammaController(0.001, 10.0).state(), allow_nan=False))
    again = GammaController(0.05, 0.5)
    again.restore(saved)
    decision = again.step(PERIOD, Observations({}), 0.1)
    assert (decision.floor, decision.ceiling) == (0.05, 0.5)


def test_objectives_may_go_while_they_are_missed_and_while_their_sign_is_measured() -> None:
    for objective in (FIRST_TOKEN, MIDDLE):
        plant = Plant(GammaController(), {"o": (objective, power(50.0, 0.0))}).run(120)
        plant.seen.declare({})
        decision = plant.controller.step(plant.now + PERIOD, plant.seen, 0.1)
        assert decision.standings == {}


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    plant = Plant(GammaController(), {"o": (FIRST_TOKEN, power(2.0, 1.0))}, now=1e6).run(60)
    plant.now = 1000.0
    plant.objectives = {"o": (FIRST_TOKEN, power(20.0, 1.0))}
    before = plant.gamma
    plant.run(120)
    assert plant.gamma < 0.5 * before


def test_without_objectives_equation_9_is_left_alone() -> None:
    controller = GammaController(0.01, 1.0)
    decisions = [controller.step(i * PERIOD, Observations({}), 0.1) for i in range(20)]
    assert {(d.floor, d.ceiling, d.replicas) for d in decisions} == {(0.01, 1.0, None)}


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (2.0, 1.0), (1.0, math.inf)])
def test_impossible_bounds_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="0 < lowest <= highest, finite"):
        GammaController(*bounds)
