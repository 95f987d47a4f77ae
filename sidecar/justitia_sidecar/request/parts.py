"""The parts of the sidecar that requests need. `service.py` puts them together."""

from collections.abc import Callable
from dataclasses import dataclass

from justitia_sidecar.admission.metering import Metering
from justitia_sidecar.admission.observation import FirstTokens
from justitia_sidecar.admission.order import Order
from justitia_sidecar.admission.waker import Waker
from justitia_sidecar.admission.watch import EngineWatch
from justitia_sidecar.current import Current
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.learning.learner import Learner
from justitia_sidecar.limits.held import HeldBytes
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.objectives.objectives import Objectives
from justitia_sidecar.pool.passing import PeerClient
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.request.body import TokensPerByte
from justitia_sidecar.request.open import OpenRequests
from justitia_vocabulary.units import Seconds


@dataclass(frozen=True, slots=True)
class Parts:
    current: Current
    order: Order
    engine: EngineClient
    watch: EngineWatch
    waker: Waker
    open: OpenRequests
    metering: Metering
    held: HeldBytes
    learner: Learner
    objectives: Objectives
    metrics: SidecarMetrics
    first_tokens: FirstTokens
    peers: Peers
    peer_client: PeerClient | None
    tokens_per_byte: TokensPerByte
    clock: Callable[[], Seconds]
