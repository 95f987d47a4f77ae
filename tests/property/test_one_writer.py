"""Two operators never write at the same time, whatever is late and whatever is lost.

Candidates and an API server that is late on purpose run on a loop whose time passes without waiting. Each candidate, as
long as its Lease allows, writes an object which names the version that it saw; a write may take effect long after it
was given up. Candidates release the Lease, lose it, and come again as another.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_operator.runtime.kube import Kube
from justitia_operator.runtime.lease import DURATION_SECONDS, HOLD_SECONDS, RETRY_SECONDS, Lease, LeaseLost
from support.clocks import LoopClock
from support.late_lease_store import CutLine, LateLeaseStore, Line
from support.simulated_time import in_simulated_time

LONG = 300.0
"""Simulated seconds."""
CANDIDATES = 2
ROUND_OFF = 1e-3

MakeLease = Callable[[Kube, str], Lease]


def make_lease(kube: Kube, identity: str) -> Lease:
    return Lease(kube, "system", "operator", identity, LoopClock())


class FromTheAnswer(Lease):
    """Wrong on purpose: it counts from the answer to a renewal, and looks at the time between two renewals only."""

    def __init__(self, kube: Kube, identity: str) -> None:
        self.clock = LoopClock()
        super().__init__(kube, "system", "operator", identity, self.clock)

    def seconds_left(self) -> float:
        return HOLD_SECONDS

    async def keep(self) -> None:
        renewed = self.clock.seconds()
        while True:
            await self.clock.sleep(RETRY_SECONDS)
            try:
                async with self.clock.timeout(HOLD_SECONDS / 2):
                    await self.acquire()
                renewed = self.clock.seconds()
            except TimeoutError:
                if self.clock.seconds() - renewed > HOLD_SECONDS:
                    raise LeaseLost from None


@dataclass
class Object:
    """What leaders write. `writers`: the terms whose writes took effect, in order."""

    version: int = 0
    writers: list[int] = field(default_factory=list)


@dataclass
class Term:
    """From a Lease that was confirmed to its loss: when its last request was sent, until when it was sure, and how it
    ended.
    """

    number: int
    begun: float
    sent: float
    sure: float
    released: bool = False


class Simulation:
    def __init__(self, seed: int, *, fenced: bool) -> None:
        self.random, self.store = random.Random(seed), LateLeaseStore()
        self.fenced = fenced
        self.object, self.terms = Object(), list[Term]()

    async def run(self) -> None:
        candidates = [asyncio.create_task(self._candidate(f"operator-{number}")) for number in range(CANDIDATES)]
        await asyncio.sleep(LONG)
        for task in candidates:
            task.cancel()
        await asyncio.gather(*candidates, return_exceptions=True)

    async def _candidate(self, name: str) -> None:
        loop, line = asyncio.get_running_loop(), Line(self.store, self.random)
        while True:
            await asyncio.sleep(self.random.uniform(0, 5))
            lease = make_lease(cast("Kube", line), f"{name}-{loop.time()}")
            await lease.acquire()
            if lease.seconds_left() <= 0:
                # The answer took so long that it is not sure any more.
                continue
            term = Term(len(self.terms), loop.time(), loop.time(), loop.time())
            self.terms.append(term)
            writing = asyncio.create_task(self._write(lease, term, line))
            try:
                await asyncio.wait_for(lease.keep(), self.random.uniform(20, 120))
            except LeaseLost:
                continue
            except TimeoutError:
                term.released = True
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(lease.release(), HOLD_SECONDS)

    async def _write(self, lease: Lease, term: Term, line: Line) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if (left := lease.seconds_left()) > 0:
                term.sent, term.sure = loop.time(), loop.time() + left
                version = self.object.version
                # Also after it was given up: a network may keep it for longer than anybody waits.
                late = line.delay() * (10 if line.is_bad else 1)
                loop.call_later(late, self._take_effect, term.number, version)
            await asyncio.sleep(self.random.uniform(0.05, 1))

    def _take_effect(self, term: int, version: int) -> None:
        if not self.fenced or version == self.object.version:
            self.object.version += 1
            self.object.writers.append(term)


def simulated(seed: int, *, fenced: bool = True) -> Simulation:
    simulation = Simulation(seed, fenced=fenced)
    in_simulated_time(simulation.run())
    return simulation


def pauses(simulation: Simulation) -> list[float]:
    """Between the moment until which a leader was sure, and the first at which the next one leads."""
    return [after.begun - before.sure for before, after in pairwise(simulation.terms) if not before.released]


def overwrites(simulation: Simulation) -> int:
    """Writes of a leader that took effect after one of a later leader."""
    latest, found = -1, 0
    for term in simulation.object.writers:
        found += term < latest
        latest = max(latest, term)
    return found


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_nobody_leads_while_another_may_write_and_what_is_late_undoes_nothing(seed: int) -> None:
    simulation = simulated(seed)
    assert all(pause >= DURATION_SECONDS - HOLD_SECONDS - ROUND_OFF for pause in pauses(simulation))
    assert all(after.begun >= before.sent for before, after in pairwise(simulation.terms))
    assert overwrites(simulation) == 0


def test_there_is_a_leader_again_and_again() -> None:
    """Or nothing above would be shown."""
    assert sum(len(simulated(seed).terms) for seed in range(5)) > 15
    assert all(simulated(seed).object.writers for seed in range(5))


async def overlap(make: MakeLease) -> float:
    """Seconds for which a leader whose last answer comes late goes on beside its successor."""
    loop, store, leads = asyncio.get_running_loop(), LateLeaseStore(), dict[str, list[float]]()

    async def candidate(name: str, line: Line) -> None:
        lease = make(cast("Kube", line), name)
        await lease.acquire()
        keeping = asyncio.create_task(lease.keep())
        while not keeping.done():
            if lease.seconds_left() > 0:
                leads.setdefault(name, []).append(loop.time())
            await asyncio.sleep(0.1)
        await asyncio.gather(keeping, return_exceptions=True)

    first = asyncio.create_task(candidate("first", CutLine(store, cut=10.0, late=4.9)))
    await asyncio.sleep(1)
    second = asyncio.create_task(candidate("second", CutLine(store, cut=100.0, late=0.0)))
    await asyncio.sleep(60)
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    return leads["first"][-1] - leads["second"][0]


def test_a_leader_whose_last_answer_is_late_stops_before_its_successor_begins() -> None:
    assert in_simulated_time(overlap(make_lease)) <= HOLD_SECONDS - DURATION_SECONDS + ROUND_OFF
    assert in_simulated_time(overlap(FromTheAnswer)) > 1, "the negative control"


def test_a_late_write_that_names_no_version_is_found() -> None:
    assert sum(overwrites(simulated(seed, fenced=False)) for seed in range(15)) > 0
