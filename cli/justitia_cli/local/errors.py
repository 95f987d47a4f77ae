"""Errors that end a local command with one line: a mistake of the user, or something that this machine lacks."""


class LocalError(ValueError):
    """An error whose message says what is wrong, where, and what to do."""
