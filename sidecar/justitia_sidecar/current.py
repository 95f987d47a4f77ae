"""The documents in effect, and what is made of them.

A document of an older generation is ignored. An invalid one leaves the old one in effect.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from justitia_api.config import KeyTable, PoolConfig, SchedulingConfig, digest_of
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.order import Order
from justitia_sidecar.identity.authentication import KeyRing
from justitia_sidecar.identity.recognition import Directory
from justitia_sidecar.identity.served_models import ServedModels
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.refusals import not_configured
from justitia_sidecar.reload import InvalidDocumentError, WatchedDocument, understood
from justitia_vocabulary.units import TenantId

log = structlog.get_logger("justitia.sidecar")


@dataclass(slots=True)
class InEffect:
    """The configuration in effect, and what was made of it."""

    config: PoolConfig
    directory: Directory
    models: ServedModels
    order: Order

    @property
    def admission(self) -> Admission:
        return self.order.admission


class Current:
    """The functions in `on_config` are called, in order, for each configuration that is put into effect."""

    def __init__(self, order: Order, metrics: SidecarMetrics) -> None:
        self.keys: KeyRing | None = None
        self.in_effect: InEffect | None = None
        self.not_understood = ""
        """The part of the configuration that only another release understands."""
        self.on_config: list[Callable[[PoolConfig], None]] = []
        self._order = order
        self._metrics = metrics
        self._given: dict[type, object] = {}

    def configured(self) -> InEffect:
        """The configuration in effect. Raises a refusal with 503 until both documents have been read."""
        if self.in_effect is None or self.keys is None:
            raise not_configured()
        return self.in_effect

    def tenant(self, authorization: bytes | None) -> TenantId:
        """The tenant of a key. Raises a refusal: 401 for a wrong key, 503 before there is a key table."""
        self.configured()
        assert self.keys is not None
        return self.keys.tenant(authorization)

    @property
    def documents(self) -> str:
        """The digest of both documents in effect, as they were given."""
        return digest_of(self._given.get(PoolConfig), self._given.get(KeyTable))

    def put_keys(self, table: KeyTable, given: object = None, *, anyway: bool = False) -> None:
        """Put a key table into effect, whose JSON was `given`. An older one is ignored unless `anyway` is set."""
        if self.keys is not None and table.generation < self.keys.generation and not anyway:
            log.warning("older key table ignored", generation=table.generation, in_effect=self.keys.generation)
            return
        self.keys = KeyRing(table)
        self._given[KeyTable] = given

    def put_config(self, config: PoolConfig, given: object = None, *, anyway: bool = False) -> None:
        """Put a configuration into effect, whose JSON was `given`. An older one is ignored unless `anyway` is set."""
        directory = Directory(config)
        if self.in_effect is not None and config.generation < self.in_effect.config.generation and not anyway:
            before = self.in_effect.config.generation
            log.warning("older configuration ignored", generation=config.generation, in_effect=before)
            return
        self._order.configure(config)
        self.in_effect = InEffect(config, directory, ServedModels(config), self._order)
        self._given[PoolConfig] = given
        self.not_understood = ""
        for hear in self.on_config:
            hear(config)
        self._metrics.generation.set(config.generation)
        log.info("configuration in effect", generation=config.generation, policy=config.scheduling.policy.value)

    def take_config(self, given: object, *, anyway: bool) -> None:
        """Put a configuration into effect, given as JSON, maybe of a later release. What is not understood of it is
        left out. Raises ValidationError if the rest is not enough to serve by.
        """
        before = SchedulingConfig() if self.in_effect is None else self.in_effect.config.scheduling
        config, problem = understood(given, before)
        self.put_config(config, given, anyway=anyway)
        if self.in_effect is not None and self.in_effect.config is config:
            self.not_understood = problem

    def poll(self, config: WatchedDocument[PoolConfig], keys: WatchedDocument[KeyTable]) -> None:
        """Put into effect what is new in the files."""
        try:
            if (table := keys.poll()) is not None:
                self.put_keys(table, keys.content)
        except InvalidDocumentError as error:
            self._refused("keys", error)
        try:
            if (document := config.poll()) is not None:
                self.put_config(document, config.content)
        except InvalidDocumentError as error:
            self._refused("config", error)

    def _refused(self, document: str, error: InvalidDocumentError) -> None:
        self._metrics.reload_failures.labels(document).inc()
        log.error("document is invalid: the old one stays in effect", document=document, reason=str(error))
