"""Which tests one process runs, when several run side by side."""

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

ONE_ENGINE = {"test_forced_length.py", "test_lifecycle.py", "test_serving.py"}
"""Modules of tests/engine whose engine is the session's."""


class BySharedPrograms(LoadScopeScheduling):
    """One process runs the tests of a module, and of all modules that share a control plane or an engine: to start
    another one takes the processor more time than they would gain.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(PurePosixPath(nodeid.partition("::")[0]))


def scope_of(module: PurePosixPath) -> str:
    match module.parent.name:
        case "chart":
            return "chart"
        case "apiserver":
            return "API server, first half" if module.name < "test_o" else "API server, second half"
        case "engine" if module.name in ONE_ENGINE:
            return "engine of the session"
    return str(module)
