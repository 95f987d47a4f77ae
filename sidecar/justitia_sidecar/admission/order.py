"""Decides where the order is kept, and keeps the admission that goes with it.

The order is kept inside the engine if the pool asks for it and the plug-in supports the engine, else in front of it. A
plug-in says while its engine starts, when nothing is open in it, that it does not support it. If something is open
nevertheless, it ends with the books that it began with, and what still waits is refused.
"""

from collections.abc import Callable

import structlog

from justitia_api.config import PoolConfig
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.core.step_time import PRIOR
from justitia_scheduling.policies.registry import build_cost_model, build_policy
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.in_front import InFront
from justitia_sidecar.admission.inside import Inside
from justitia_sidecar.admission.runs import MAXIMUM_OPEN_RUNS, TrackedRun
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.configuration import configured_knobs, engine_configuration
from justitia_sidecar.limits.memory import memory_limit, most_runs
from justitia_sidecar.pool.limits import PoolLimits
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.pool.sharing import Sharing
from justitia_vocabulary.policies import INSIDE_THE_ENGINE_ONLY, PolicyName
from justitia_vocabulary.units import Seconds

log = structlog.get_logger("justitia.sidecar")


def build_configured_policy(config: PoolConfig) -> Policy:
    """Build the policy for an order in front of the engine: FCFS in place of one that only the engine can keep."""
    scheduling = config.scheduling
    policy = PolicyName.FCFS if scheduling.policy in INSIDE_THE_ENGINE_ONLY else scheduling.policy
    return build_policy(policy, build_cost_model(scheduling.cost_model, PRIOR))


class Order:
    """`sharing` is with the pool's other engines, while this one keeps the order; `limits` count over all of them then,
    if the pool has a Valkey. `on_run_ended` is called for each run that is over. `on_other_service` is called when
    service no longer compares with what it was, because its unit or the process that counts it has changed. `on_moved`
    is called when the order moves into the engine, or in front of it.
    """

    def __init__(
        self,
        engine_channel: EngineChannel | None,
        clock: Callable[[], Seconds],
        peers: Peers | None = None,
        limits: PoolLimits | None = None,
    ) -> None:
        self.engine_channel = engine_channel
        self.limits = limits or PoolLimits(clock)
        self._peers = peers
        self.on_run_ended: Callable[[TrackedRun], None] = lambda run: None
        self.on_other_service: Callable[[], None] = lambda: None
        self.on_moved: Callable[[], None] = lambda: None
        self._clock = clock
        self._inside = engine_channel is not None
        self.sharing: Sharing | None = None
        self._config: PoolConfig | None = None
        self._admission: InFront | Inside | None = None
        if engine_channel is not None:
            engine_channel.on_hello = self._engine_said_what_it_is

    @property
    def channel(self) -> EngineChannel | None:
        """The channel to the plug-in, if that keeps the order. None if the order is kept here."""
        return self.engine_channel if self._inside else None

    @property
    def in_engine(self) -> bool:
        return self._inside

    @property
    def policy_report(self) -> PolicyReport:
        """The last report of the policy that keeps the order; an empty one if none does."""
        if isinstance(self._admission, InFront):
            return self._admission.policy.report()
        channel = self.channel
        return channel.state.policy if channel is not None and channel.reporting else PolicyReport()

    @property
    def admission(self) -> Admission:
        assert self._admission is not None
        return self._admission

    def configure(self, config: PoolConfig) -> None:
        """Put a configuration into effect, and carry over what is open."""
        before, self._config = self._config, config
        self._limit(config)
        match self._admission:
            case None:
                self._admission = self._fresh(config)
            case Inside() as inside:
                inside.reconfigure(config, self._clock())
            case InFront() as in_front:
                assert before is not None
                same_unit = config.scheduling.cost_model is before.scheduling.cost_model
                same = same_unit and config.scheduling.policy is before.scheduling.policy
                policy = in_front.policy if same else build_configured_policy(config)
                in_front.reconfigure(config, policy, self._clock(), keep_service=same_unit)
                if not same_unit:
                    self.on_other_service()

    def tune(self, config: PoolConfig, gamma: tuple[float, float] | None) -> None:
        """Tell whoever keeps the order how the policy is tuned. `gamma` are the bounds of gamma, in 1/s."""
        if self.engine_channel is not None:
            self.engine_channel.configure(engine_configuration(config, gamma))
        if isinstance(self._admission, InFront):
            self._admission.tune(configured_knobs(config.scheduling, gamma))

    def _limit(self, config: PoolConfig) -> None:
        self.limits.configure(config, shares=self._inside and config.valkey is not None)

    def _fresh(self, config: PoolConfig) -> InFront | Inside:
        admission: InFront | Inside
        if (channel := self.channel) is not None:
            self.sharing = Sharing(channel, self._peers, self.limits)
            admission = Inside(config, channel, self.sharing, self._clock)
            admission.reconfigure(config, self._clock())
        else:
            self.sharing = None
            admission = InFront(config, build_configured_policy(config))
            admission.reconfigure(config, admission.policy, self._clock(), keep_service=True)
        runs = admission.books.runs
        runs.on_ended = self._run_ended
        runs.maximum = min(MAXIMUM_OPEN_RUNS, most_runs(memory_limit()))
        return admission

    def _run_ended(self, run: TrackedRun) -> None:
        self.on_run_ended(run)

    def _engine_said_what_it_is(self) -> None:
        assert self.engine_channel is not None
        inside = self.engine_channel.unsupported is None
        if inside is self._inside:
            return
        self._inside = inside
        log.warning("the order moves: requests that wait are refused", to="the engine" if inside else "the sidecar")
        if self._config is None or self._admission is None:
            return
        before = self._admission
        self._limit(self._config)
        self._admission = self._fresh(self._config)
        self._admission.engine_told(before.engine, self._clock())
        self.on_moved()
        self.on_other_service()
