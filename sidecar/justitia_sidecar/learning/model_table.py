"""Decides which models are loaded next, and says of each that the configuration names whether it is loaded, or why not.

A model is kept exactly as long as the configuration names it. One that could not be loaded is asked for again after all
others, so that one which the store never brings keeps none of them waiting.
"""

from collections.abc import Iterable

from justitia_api.status import ModelStatus
from justitia_predictor.artifact import Artifact
from justitia_sidecar.learning.evidence import PairedErrors

LONGEST_PROBLEM = 300
"""The most characters of a problem that are reported."""

Named = tuple[str, str]
"""An application's name in the store, and a version."""


class ModelTable:
    """Models, problems, and the order in which models are asked for."""

    def __init__(self) -> None:
        self._wanted: list[Named] = []
        self._loaded: dict[Named, Artifact] = {}
        self._problems: dict[Named, str] = {}
        self._unusable: set[Named] = set()

    def want(self, named: Iterable[Named]) -> None:
        """Keep these, and drop all others."""
        wanted = dict.fromkeys(named)
        known = dict.fromkeys(each for each in self._wanted if each in wanted)
        self._wanted = list(known | wanted)
        self._loaded = {each: model for each, model in self._loaded.items() if each in wanted}
        self._problems = {each: problem for each, problem in self._problems.items() if each in wanted}
        self._unusable &= wanted.keys()

    def missing(self) -> list[Named]:
        """Those that are not loaded, in the order in which to ask for them."""
        return [each for each in self._wanted if each not in self._loaded]

    def loaded_of(self, name: str, versions: Iterable[str | None]) -> dict[str, Artifact]:
        """An application's models that are loaded, by version, in this order."""
        return {v: self._loaded[name, v] for v in versions if v is not None and (name, v) in self._loaded}

    def loaded(self, named: Named, model: Artifact) -> None:
        """Note that a model is loaded. It is dropped if nobody wants it any more."""
        if named in self._wanted:
            self._loaded[named] = model
            self._problems.pop(named, None)
            self._unusable.discard(named)

    def failed(self, named: Named, problem: str, *, unusable: bool = False) -> None:
        """Note that a model was asked for and not loaded: it comes last. An `unusable` one never will be loaded."""
        if named in self._wanted:
            self._wanted.remove(named)
            self._wanted.append(named)
            self._problems[named] = problem[:LONGEST_PROBLEM]
            if unusable:
                self._unusable.add(named)

    def not_asked_for(self, named: Named, problem: str) -> None:
        """Note why a model was not even asked for: it keeps its place."""
        if named in self._wanted:
            self._problems[named] = problem[:LONGEST_PROBLEM]

    def status(self, name: str, version: str | None, errors: PairedErrors) -> ModelStatus | None:
        """What is reported of a version. None where there is no version in that role."""
        if version is None:
            return None
        return ModelStatus(
            version=version,
            loaded=(name, version) in self._loaded,
            problem=self._problems.get((name, version)),
            unusable=(name, version) in self._unusable,
            since_start=errors.since_start,
            recent=errors.recent,
        )
