"""What ends a local command with one line: a mistake of the user, or something that this machine lacks."""


class LocalError(ValueError):
    """Says what is wrong, where, and what to do."""
