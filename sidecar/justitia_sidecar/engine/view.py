"""What the sidecar knows of the engine, from the engine's own metrics."""

from dataclasses import dataclass

from justitia_vocabulary.units import Tokens


@dataclass(slots=True)
class EngineView:
    """The engine as its metrics last described it. `running` and `waiting` requests are its own counts; the `deferred`
    ones among the waiting wait for something else than a step, those `for_capacity` for KV space or a seat. `longest`
    is the most tokens that a request may have. With `prefix_cache` it finds prompts again that it has read. `doubted`
    says that it is not ready because a request could not be sent to it, which no probe has confirmed. `progress`
    changes with each step: it is the number of steps with output, and the KV space in use, which grows while a prompt
    is read. None: the metrics do not have it.
    """

    ready: bool = False
    doubted: bool = False
    kv_tokens: Tokens | None = None
    block_size: Tokens = 1
    prefix_cache: bool = False
    longest: Tokens | None = None
    waiting: int = 0
    running: int = 0
    deferred: int = 0
    for_capacity: int = 0
    progress: tuple[str, ...] | None = None

    @property
    def bounds(self) -> list[Tokens]:
        """The most tokens that one request may have, as far as bounds are known."""
        return [bound for bound in (self.longest, self.kv_tokens) if bound is not None]
