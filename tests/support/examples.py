"""How many examples a property test tries."""

from typing import Any

from hypothesis import settings

PART = 5


def examples(count: int, **others: Any) -> settings:
    """`count` examples in the nightly run, and a fifth of them otherwise."""
    nightly = settings.get_current_profile_name() == "nightly"
    return settings(max_examples=count if nightly else count // PART, **others)
