"""Gamma from the objectives: a controller that moves the bounds inside which equation 9 adapts.

What it moves, in log gamma, around gamma in effect = the estimate inside [floor, ceiling]:

    missed first tokens, completion up to P90     the ceiling down, by ln(value / bound) at least
    missed completion at P99 and above            the floor up, at most to 3 times the estimate: beyond, P99 is flat
    missed completion in between, missed pace     the sign is measured first (`dither.py`)
    all that pull one way have room               their bound gives way again, by ln 1.25

*Signal.* An objective is pressed when more values miss its bound than half of its error budget: the other half is for
what control cannot see, the noise of windows. It has room when twice the value would still do. Only requests that
arrived since the last move are looked at, and only those of which everything is known (`cohorts.py`), so a move is
judged by its own effect, and the time between moves follows load, bound and percentile by itself.

*Stability.* Let g = d ln(value) / d ln(gamma). Judged moves are a loop without delay: a step down by the whole error
e leaves e (1 - g). If it still misses, g < 1, and the next step is twice as long. A step back raises the value by
1.25^g, which is below 2 for g < 3.1: what had room does not miss by it. So it stops between the two. Where noise takes
it over the edge, the next step back waits twice as long. A move that takes long to show is longer at once, ln 1.25
for each period until it does, and what is too far has room: gamma falls as fast for a bound of a minute as for one of a
second, and comes back step by step. Only what a step back lifted over the edge takes as little as that step.

*Opposing objectives* share what is missed: the larger of weight * ln(value / bound) moves gamma, each change of
direction halves the stride. They are Unattainable, as is what misses at the end of gamma's reach for `CONFIRM` s.

*Equation 9* lowers its estimate under overload. Where that changes gamma it counts as a move, whose effect is waited
for; a step down starts from wherever it has taken gamma; and a step up is limited by the largest estimate since
something was pressed. So the two rules do not fight.

*Replicas.* What is Unattainable for its load would hold with demand / (the load at which it did hold) replicas.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from justitia_scheduling.objectives.attainment import Attainment, attainment, counted
from justitia_scheduling.objectives.cohorts import Cohort
from justitia_scheduling.objectives.dither import AMPLITUDE, Dither
from justitia_scheduling.objectives.objective import Direction, Objective
from justitia_scheduling.objectives.observations import SLICES, ObjectiveId, Observations, Watched
from justitia_vocabulary.policies import HIGHEST_GAMMA, LOWEST_GAMMA
from justitia_vocabulary.units import Seconds

PERIOD: Seconds = 5.0
"""How often `step` is asked."""
KEPT = 0.5
"""The part of the error budget that control leaves."""
ENOUGH = 4
"""Values that may miss `KEPT` of the budget, in a sample that a percentile is taken from."""
ALARM = 3.0
"""Standard deviations by which misses exceed it in a sample that is smaller."""
ROOM = 2.0
LEAST, MOST = math.log(1.25), math.log(10)
"""The least and the largest move of log gamma in a step."""
REACH = 3.0
"""How far above the estimate a missed P99 may take gamma."""
DRIFT = math.log(1.5)
"""By equation 9, of log gamma: it counts as a move."""
PATIENCE: tuple[Seconds, Seconds] = (60.0, 960.0)
"""The least and the most that a step back waits after one that was over the edge."""
CONFIRM: Seconds = 60.0
LEAST_STRIDE, MOST_STRIDE = 0.125, 8.0
USUAL_LOAD, MOST_LOAD = 0.8, 0.95
"""The part of an engine's time at which objectives are taken to hold, and up to which they may be seen to."""
LEAST_LOAD = 0.3
"""What misses below it misses by itself: more replicas would not help."""


@dataclass(frozen=True, slots=True)
class GammaDecision:
    """Bounds of gamma in 1/s. `needed`: how many replicas the load needs so that objectives hold, an estimate; None
    before anything has finished. `replicas`: how many would hold what is Unattainable; None if nothing is, or more
    would not help.
    """

    floor: float
    ceiling: float
    standings: Mapping[ObjectiveId, Attainment]
    needed: float | None
    replicas: int | None


class SampleVerdict(Enum):
    """What the values since the last move say."""

    PRESSED = "pressed"
    HELD = "held"
    ROOM = "room"
    UNSURE = "unsure"


OPEN = (SampleVerdict.PRESSED, SampleVerdict.UNSURE)
"""The verdicts on an objective that was missed and is not known to hold again."""


class Judgement(NamedTuple):
    """`error`: ln(value / bound) of what is pressed; `burn`: misses by those that are allowed, of the same sample."""

    verdict: SampleVerdict
    error: float = 0.0
    burn: float = 0.0


@dataclass(slots=True)
class Memory:
    """All that a restart must keep. Moments on the host's clock.

    `gamma` was in effect after the last move, which `gave_way` or not. `pinned`: since when a missed objective could
    not be helped. `signs`: what was measured, until nothing is missed.
    """

    floor: float
    ceiling: float
    moved: Seconds = -math.inf
    gamma: float = 0.0
    gave_way: bool = False
    patience: Seconds = 0.0
    stride: float = 1.0
    last_sign: int = 0
    turns: int = 0
    reference: float = 0.0
    held_load: float = USUAL_LOAD
    pinned: dict[ObjectiveId, Seconds] = field(default_factory=dict)
    signs: dict[ObjectiveId, int] = field(default_factory=dict)


class GammaController:
    """The controller of one pool. Gamma stays in [lowest, highest], in 1/s. Raises ValueError as `limit` does."""

    def __init__(self, lowest: float = LOWEST_GAMMA, highest: float = HIGHEST_GAMMA) -> None:
        self._dither: Dither | None = None
        self._memory = Memory(lowest, highest)
        self.limit(lowest, highest)

    def limit(self, lowest: float, highest: float) -> None:
        """The pool's bounds. Raises ValueError."""
        if not 0 < lowest <= highest < math.inf:
            raise ValueError(f"bounds of gamma are {lowest} and {highest}: need 0 < lowest <= highest, finite")
        self.lowest, self.highest = lowest, highest
        m = self._memory
        m.floor, m.ceiling = (min(max(bound, lowest), highest) for bound in (m.floor, m.ceiling))
        self._dither = None

    @property
    def bounds(self) -> tuple[float, float]:
        """The floor and the ceiling of gamma after the last step, in 1/s."""
        if self._dither is not None:
            point = min(max(self._dither.gamma, self.lowest), self.highest)
            return point, point
        return self._memory.floor, self._memory.ceiling

    def step(self, now: Seconds, seen: Observations, estimate: float, replicas: int = 1) -> GammaDecision:
        """Every `PERIOD` s: what all replicas have seen, and equation 9's estimate, in 1/s."""
        m = self._memory
        m.moved = min(m.moved, now)
        gamma = min(max(estimate, m.floor), m.ceiling)
        if self._dither is not None and self._dither.key not in seen.watched:
            self._dither = None
        if self._dither is None and (not m.gamma or abs(math.log(gamma / m.gamma)) > DRIFT):
            m.moved, m.gamma = now if m.gamma else m.moved, gamma
        judged = {key: judge(w, now, m.moved) for key, w in seen.watched.items()}
        pressed = {k: j.error for k, j in judged.items() if j.verdict is SampleVerdict.PRESSED}
        m.reference = max(m.reference, estimate) if pressed else estimate
        self._learn_load(now, seen, judged, replicas)
        pulls = {k: e * seen.watched[k].objective.weight for k, e in pressed.items()}
        down, up, unknown = ({k: e for k, e in pulls.items() if self._sign(k, seen) == s} for s in (-1, 1, 0))
        if down or up:
            self._dither = None
            self._pull(down, up, seen, now, gamma)
        elif self._dither is not None and judged[self._dither.key].verdict in OPEN:
            self._measure(self._dither, seen, now)
        elif unknown:
            self._dither = None
            if measurable := unknown.keys() - m.pinned.keys():
                self._dither = Dither(max(measurable, key=unknown.__getitem__), gamma)
                m.moved = now
        else:
            self._dither = None
            self._give_way(judged, seen, now, estimate)
        m.pinned = {k: t for k, t in m.pinned.items() if k in judged and judged[k].verdict in OPEN}
        opposing = bool(down and up) or m.turns >= 2
        standings = {k: self._standing(k, w, now, judged[k], opposing) for k, w in seen.watched.items()}
        floor, ceiling = self.bounds
        demand = seen.demand.rate(now)
        needed = None if demand is None else demand / m.held_load
        more = None
        if demand is not None and any(s.unattainable for s in standings.values()):
            more = self._more(demand, replicas)
        return GammaDecision(floor, ceiling, standings, needed if more is None else max(needed or 0.0, more), more)

    def state(self) -> dict[str, Any]:
        """For JSON; `restore` takes it. A measurement of a sign begins again."""
        return {name: None if value == -math.inf else value for name, value in asdict(self._memory).items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there, inside this pool's bounds."""
        known = dict(state)
        known["moved"] = -math.inf if known["moved"] is None else known["moved"]
        self._memory = Memory(**known)
        self.limit(self.lowest, self.highest)

    # Moves.

    def _sign(self, key: ObjectiveId, seen: Observations) -> int:
        direction = seen.watched[key].objective.direction
        return self._memory.signs.get(key, 0) if direction is Direction.MEASURED else direction.value

    def _pull(
        self,
        down: Mapping[ObjectiveId, float],
        up: Mapping[ObjectiveId, float],
        seen: Observations,
        now: Seconds,
        gamma: float,
    ) -> None:
        """Towards what misses most."""
        m = self._memory
        error = max(up.values(), default=0.0) - max(down.values(), default=0.0)
        if down and up and abs(error) < LEAST:
            return
        sign = 1 if error > 0 else -1
        if m.last_sign == -sign:
            m.stride, m.turns = max(m.stride / 2, LEAST_STRIDE), m.turns + 1
        else:
            m.stride, m.turns = min(m.stride * 2, MOST_STRIDE) if m.last_sign else 1.0, 0
        m.last_sign = sign
        pulling = up if sign > 0 else down
        least = LEAST
        if m.gave_way:
            m.patience, m.gave_way = min(max(2 * m.patience, PATIENCE[0]), PATIENCE[1]), False
        else:
            shows_after = max(now - seen.watched[key].known_until(now) for key in pulling)
            least *= max(1.0, shows_after / PERIOD)
        if not self._move(sign, min(max(abs(error), least) * m.stride, MOST), now, gamma):
            for key in pulling:
                m.pinned.setdefault(key, now)

    def _move(self, sign: int, step: float, now: Seconds, gamma: float) -> bool:
        """Whether there was any way to go."""
        m = self._memory
        if sign > 0:
            reach = min(max(REACH * m.reference, self.lowest), self.highest)
            wanted = min(gamma * math.exp(step), reach)
            if wanted <= gamma * 1.01:
                return False
            m.floor, m.ceiling = wanted, max(m.ceiling, wanted)
        else:
            wanted = max(gamma * math.exp(-step), self.lowest)
            if wanted >= gamma / 1.01:
                return False
            m.floor, m.ceiling = min(m.floor, wanted), wanted
        m.moved, m.gamma, m.gave_way = now, wanted, False
        return True

    def _give_way(
        self, judged: Mapping[ObjectiveId, Judgement], seen: Observations, now: Seconds, estimate: float
    ) -> None:
        """Nothing is pressed: a bound that limits equation 9 moves back, if all that might have set it have room."""
        m = self._memory
        if any(j.verdict is SampleVerdict.UNSURE for j in judged.values()):
            return
        m.last_sign, m.turns, m.stride = 0, 0, 1.0
        m.signs.clear()
        sign = -1 if estimate > m.ceiling else 1 if estimate < m.floor else 0
        concerned = [j.verdict for k, j in judged.items() if self._sign(k, seen) in (sign, 0)]
        if not sign or now - m.moved < m.patience or any(v is not SampleVerdict.ROOM for v in concerned):
            return
        if sign < 0:
            m.ceiling = min(m.ceiling * math.exp(LEAST), self.highest)
        else:
            m.floor = max(m.floor * math.exp(-LEAST), self.lowest)
        if m.gave_way:
            m.patience /= 2
        m.moved, m.gamma, m.gave_way = now, min(max(estimate, m.floor), m.ceiling), True

    # Signs that are measured.

    def _measure(self, dither: Dither, seen: Observations, now: Seconds) -> None:
        m = self._memory
        watched = seen.watched[dither.key]
        sample = watched.last(watched.recent, SLICES, now, m.moved)
        if sample.total * watched.objective.allowed < ENOUGH:
            return
        dither.record(sample.missed, sample.total)
        m.moved = now
        if dither.flat:
            m.pinned.setdefault(dither.key, now)
            self._dither = None
        elif dither.sign:
            m.signs[dither.key] = dither.sign
            self._dither = None
            self._move(dither.sign, AMPLITUDE, now, dither.centre)

    # What is said.

    def _standing(
        self, key: ObjectiveId, watched: Watched, now: Seconds, judged: Judgement, opposing: bool
    ) -> Attainment:
        of = attainment(watched.objective.percentile, counted(watched, now, values=False))
        pinned = self._memory.pinned.get(key)
        missed = judged.burn >= 1 or (of.budget < 0 and judged.verdict is not SampleVerdict.ROOM)
        if missed and (opposing or (pinned is not None and now - pinned >= CONFIRM)):
            return replace(of, unattainable=True, opposed=opposing)
        return of

    def _learn_load(
        self, now: Seconds, seen: Observations, judged: Mapping[ObjectiveId, Judgement], replicas: int
    ) -> None:
        """The largest load of a replica at which all was held, from the usual to the most."""
        demand = seen.demand.rate(now)
        held = judged and all(j.verdict in (SampleVerdict.HELD, SampleVerdict.ROOM) for j in judged.values())
        if demand is not None and held:
            self._memory.held_load = max(self._memory.held_load, min(demand / replicas, MOST_LOAD))

    def _more(self, demand: float, replicas: int) -> int | None:
        """How many would hold what these do not."""
        if demand / replicas < LEAST_LOAD:
            return None
        return max(replicas + 1, math.ceil(demand / self._memory.held_load))


def judge(watched: Watched, now: Seconds, since: Seconds) -> Judgement:
    """What is known of the requests that arrived since then: of the last slices that are enough, or show a miss."""
    objective, ring = watched.objective, watched.recent
    aim = KEPT * objective.allowed
    slices = 1
    while True:
        sample = watched.last(ring, slices, now, since, values=False)
        expected = aim * sample.total
        if sample.missed > expected + ALARM * math.sqrt(expected) + 1:
            return _pressed(objective, watched.last(ring, slices, now, since))
        if expected >= ENOUGH or slices >= SLICES:
            break
        slices = min(2 * slices, SLICES)
    whole_ring = watched.known_until(now) - since >= SLICES * ring.width
    if expected < ENOUGH and not whole_ring:
        return Judgement(SampleVerdict.UNSURE)
    if not sample.total:
        return Judgement(SampleVerdict.ROOM)
    sample = watched.last(ring, slices, now, since)
    error = math.log(sample.values.quantile(1 - aim) / objective.bound)
    if error > 0 and expected >= ENOUGH:
        return _pressed(objective, sample)
    return Judgement(SampleVerdict.ROOM if error <= -math.log(ROOM) else SampleVerdict.HELD)


def _pressed(objective: Objective, sample: Cohort) -> Judgement:
    error = math.log(sample.values.quantile(1 - KEPT * objective.allowed) / objective.bound)
    return Judgement(SampleVerdict.PRESSED, max(error, LEAST), sample.missed / sample.total / objective.allowed)
