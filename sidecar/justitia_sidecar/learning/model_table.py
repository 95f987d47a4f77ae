"""The models that the configuration names: those that are loaded, and why others are not."""

from collections.abc import Iterable

from justitia_api.status import ModelStatus
from justitia_predictor.artifact import Artifact
from justitia_sidecar.learning.evidence import PairedErrors

LONGEST_PROBLEM = 300
"""Characters."""

Named = tuple[str, str]
"""An application's name in the store, and a version."""


class ModelTable:
    def __init__(self) -> None:
        self._wanted: list[Named] = []
        self._loaded: dict[Named, Artifact] = {}
        self._problems: dict[Named, str] = {}
        self._unusable: set[Named] = set()

    def want(self, named: Iterable[Named]) -> None:
        """These, and no others any more."""
        wanted = dict.fromkeys(named)
        known = [each for each in self._wanted if each in wanted]
        self._wanted = [*known, *(wanted.keys() - known)]
        self._loaded = {each: model for each, model in self._loaded.items() if each in wanted}
        self._problems = {each: problem for each, problem in self._problems.items() if each in wanted}
        self._unusable &= wanted.keys()

    def missing(self) -> list[Named]:
        """To be asked for in this order."""
        return [each for each in self._wanted if each not in self._loaded]

    def of(self, name: str, versions: Iterable[str | None]) -> dict[str, Artifact]:
        """Those that are loaded, in this order."""
        return {v: self._loaded[name, v] for v in versions if v is not None and (name, v) in self._loaded}

    def loaded(self, named: Named, model: Artifact) -> None:
        """Nobody may want it by now."""
        if named in self._wanted:
            self._loaded[named] = model
            self._problems.pop(named, None)
            self._unusable.discard(named)

    def failed(self, named: Named, problem: str, *, unusable: bool = False) -> None:
        """It is asked for again after all others: one that the store never brings keeps none of them waiting."""
        if named in self._wanted:
            self._wanted.remove(named)
            self._wanted.append(named)
            self._problems[named] = problem[:LONGEST_PROBLEM]
            if unusable:
                self._unusable.add(named)

    def not_asked_for(self, named: Named, problem: str) -> None:
        if named in self._wanted:
            self._problems[named] = problem[:LONGEST_PROBLEM]

    def status(self, name: str, version: str | None, comparison: PairedErrors) -> ModelStatus | None:
        """None where there is no version in that role."""
        if version is None:
            return None
        return ModelStatus(
            version=version,
            loaded=(name, version) in self._loaded,
            problem=self._problems.get((name, version)),
            unusable=(name, version) in self._unusable,
            since_start=comparison.since_start,
            recent=comparison.recent,
        )
