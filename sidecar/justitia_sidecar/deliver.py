"""`python -m justitia_sidecar.deliver FOLDER`: puts the plug-in into a folder, for the engine's PYTHONPATH.

Only the plug-in's packages are copied, not what is installed beside them: the engine has an interpreter of its own.
"""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("justitia_engine", "justitia_scheduling", "justitia_channel", "justitia_vocabulary")


NOT_DELIVERED = ("baselines", "objectives")
"""Parts of `justitia_scheduling` that only simulations and sidecars need."""


def deliver(folder: Path) -> None:
    """Replace the packages in the folder by the installed ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        found = find_spec(name)
        assert found is not None
        assert found.submodule_search_locations
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        left_out = shutil.ignore_patterns("__pycache__", *NOT_DELIVERED)
        shutil.copytree(found.submodule_search_locations[0], target, ignore=left_out)


if __name__ == "__main__":
    deliver(Path(sys.argv[1]))
