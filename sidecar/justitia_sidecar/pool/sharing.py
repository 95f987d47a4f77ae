"""Shares what this sidecar knows with the pool's others, and tells its plug-in what they know.

`Sharing` decides who hears what. `share_forever` is its I/O: an exchange with the log, some times a second. While
the log cannot be reached, requests are served by what is known, and each engine shares by itself.
"""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import structlog

from justitia_api.config import ValkeyConfig
from justitia_api.status import LONGEST_FAILURE, SharingStatus
from justitia_channel.messages import RunEnded, RunOfPool
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.pool.limits import PoolLimits
from justitia_sidecar.pool.own import OwnNews
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.pool.state import LEASE, PoolState
from justitia_sidecar.pool.updates import RunGrowth, UpdateError, WriterId, decode, encode
from justitia_valkey.connection import ValkeyError
from justitia_valkey.log import UpdateLog
from justitia_vocabulary.units import RunId, Seconds

EVERY: Seconds = 0.5
MOST_RUNS = 50_000
"""Open runs of the whole pool, which each sidecar and each plug-in knows."""

log = structlog.get_logger("justitia.sidecar")


class Sharing:
    """What is shared of the engine that `channel` leads to.

    `peers` hear how much the others have to do, `limits` what they use of them, `on_growth` what they saw of runs, with
    the moment at which they said it. `last` is the moment of the last exchange, None before the first; `failure` is why
    the last attempt failed, if it did.
    """

    def __init__(self, channel: EngineChannel, peers: Peers | None = None, limits: PoolLimits | None = None) -> None:
        writer = WriterId(uuid.uuid4().hex)
        self._channel = channel
        self._writer = writer
        self._peers = peers
        self.limits = limits or PoolLimits(lambda: 0.0)
        self.limits.begin(writer)
        self._own = OwnNews(writer, self.limits.tell)
        self._others = PoolState(writer)
        self._told: object = None
        self.on_growth: Callable[[RunId, RunGrowth, Seconds], None] = lambda run, growth, now: None
        self.last: Seconds | None = None
        self.failure = ""
        self.malformed = 0
        channel.on_delivered = self._own.delivered
        if peers is not None:
            peers.own, peers.prefix = writer, self._others.prefix

    # Runs, as requests of them come here.

    def opened(self, run: RunOfPool) -> None:
        self._own.opened(run)
        self._others.opened_here(run.run)

    def closed(self, run: RunId) -> None:
        """No further request of the run comes here."""
        if self._own.closed(run):
            self._others.closed_here(run)
            self._tell_of_ends()

    def grew(self, run: RunId, growth: RunGrowth) -> None:
        self._own.grew(run, growth)
        if growth.context:
            self._others.context_here(run, growth.context)

    def leads(self, run: RunId) -> bool:
        """Whether the run was opened here first, as far as is known."""
        return self._others.leads(run)

    def open_elsewhere(self, run: RunId) -> bool:
        return self._others.open_elsewhere(run)

    @property
    def most_runs(self) -> int | None:
        """This sidecar's part of the runs that may be open in the pool. None while it knows of no other."""
        others = self._others.others
        return MOST_RUNS // (others + 1) if others else None

    # Exchanges.

    def update(self, now: Seconds) -> bytes:
        """What to write for the others."""
        self.limits.attempt(now)
        state = self._channel.state
        if state.unit:
            self._own.served(state.unit, (self._channel.peer, state.failures), state.service)
        return encode(self._own.next(now, None if self._peers is None else self._peers.load))

    def heard(self, written: bytes, now: Seconds) -> None:
        """Take an update that was written since the last exchange."""
        try:
            update = decode(written)
        except UpdateError:
            self.malformed += 1
            return
        if self._others.heard(update, now):
            self._own.tell_all()
        self.limits.heard(update, now)
        if self._peers is not None and update.writer != self._writer:
            self._peers.heard(update.writer, update.load)
        for run, growth in self._others.growth():
            self.on_growth(run, growth, now)

    def exchanged(self, now: Seconds) -> None:
        """The own update has been written, and all of the others' have been heard."""
        self.last, self.failure = now, ""
        self._own.written()
        self._others.expire(now)
        self.limits.exchanged(now)
        self._tell_of_ends()
        self._tell_news()

    def failed(self, reason: str, now: Seconds) -> None:
        if not self.failure:
            log.warning("the pool's log is not reached: this engine shares by itself until it is", reason=reason)
        self.failure = reason
        self._own.tell_all()
        self.limits.failed(now)

    def status(self, now: Seconds) -> SharingStatus:
        current = self.last is not None and now - self.last <= LEASE
        failure = self.failure[:LONGEST_FAILURE]
        return SharingStatus(
            connected=current,
            others=self._others.others if current else 0,
            failure=failure,
            passed_on=0 if self._peers is None else self._peers.passed_on,
        )

    # How.

    def _tell_of_ends(self) -> None:
        for run in self._others.over():
            self._channel.send(RunEnded(run))

    def _tell_news(self) -> None:
        channel = self._channel
        if not channel.connected or not channel.state.unit:
            return
        hears = (channel.peer, channel.gaps)
        if hears != self._told:
            self._told = hears
            self._others.tell_all()
        news = self._others.news(channel.state.unit)
        if news is not None:
            channel.send(news)


async def share_forever(
    shared: Callable[[], tuple[Sharing, ValkeyConfig] | None],
    credentials: Path | None,
    clock: Callable[[], Seconds],
    metrics: SidecarMetrics,
) -> None:
    """Exchange what is `shared` at the moment, over the log on that server. None: the engine shares by itself."""
    current: ValkeyConfig | None = None
    updates: UpdateLog | None = None
    while True:
        began = clock()
        sharing, server = shared() or (None, None)
        if server != current:
            if updates is not None:
                await updates.close()
            current, updates = server, None if server is None else UpdateLog(server, credentials)
        if sharing is not None and updates is not None:
            with metrics.pool_exchange.time():
                await _attempt(sharing, updates, clock, metrics)
            status = sharing.status(clock())
            metrics.pool_sharing.set(status.connected)
            metrics.pool_others.set(status.others)
        await asyncio.sleep(max(0.0, EVERY - (clock() - began)))


async def _attempt(sharing: Sharing, updates: UpdateLog, clock: Callable[[], Seconds], metrics: SidecarMetrics) -> None:
    """An exchange that may fail, if by a bug of ours: requests are served all the same."""
    try:
        await exchange(sharing, updates, clock)
    except ValkeyError:
        metrics.pool_exchange_failures.inc()
    except Exception as error:
        metrics.pool_exchange_failures.inc()
        log.exception("sharing failed")
        sharing.failed(f"{type(error).__name__}, which the sidecar's log explains", clock())
        await updates.close()


async def exchange(sharing: Sharing, updates: UpdateLog, clock: Callable[[], Seconds]) -> None:
    """One exchange: what this sidecar has to say is written, and what the others wrote is heard; once more, if what was
    heard should be answered at once. Raises ValkeyError.
    """
    await _exchange_once(sharing, updates, clock)
    if sharing.limits.presses():
        await _exchange_once(sharing, updates, clock)


async def _exchange_once(sharing: Sharing, updates: UpdateLog, clock: Callable[[], Seconds]) -> None:
    try:
        written = await updates.exchange(sharing.update(clock()))
    except ValkeyError as error:
        sharing.failed(str(error), clock())
        raise
    for each in written:
        sharing.heard(each, clock())
        await asyncio.sleep(0)  # one update takes up to a millisecond, and requests are served in between
    sharing.exchanged(clock())
