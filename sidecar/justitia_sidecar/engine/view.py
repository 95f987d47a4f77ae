"""What is known of the engine, from its own metrics."""

from dataclasses import dataclass

from justitia_vocabulary.units import Tokens


@dataclass(slots=True)
class EngineView:
    """`running`, `waiting` and, of these, `deferred`, which wait for something else than steps, are the engine's own
    counts, as last told. `longest` is the most tokens that a request may have. `progress` is another after each step:
    the steps that had output, and the KV space in use, which grows with those that read a prompt. None: it tells of
    none.
    """

    ready: bool = False
    kv_tokens: Tokens | None = None
    block_size: Tokens = 1
    longest: Tokens | None = None
    waiting: int = 0
    running: int = 0
    deferred: int = 0
    progress: tuple[str, ...] | None = None

    @property
    def bounds(self) -> list[Tokens]:
        """What the tokens of one request cannot exceed, as far as that is known."""
        return [bound for bound in (self.longest, self.kv_tokens) if bound is not None]
