"""A store that misbehaves on purpose: it keeps what a folder keeps, until a test has it be away or give no answer."""

from collections.abc import Collection

from justitia_predictor.artifact import Artifact
from justitia_predictor.sample import Sample
from justitia_predictor.store import Store, StoreError
from justitia_vocabulary.units import Seconds


class MisbehavingStore(Store):
    """`away_for`: names of applications for which it is away; `away` for all of them and for itself. `silent`: it takes
    batches and gives no answer. `asked` are the applications of the calls, in order.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.away = False
        self.away_for: Collection[str] = ()
        self.silent = False
        self.asked: list[str] = []

    def artifact(self, application: str, name: str) -> Artifact:
        self._ask(application)
        return super().artifact(application, name)

    def put_samples(self, application: str, at: Seconds, source: str, samples: list[Sample]) -> None:
        self._ask(application)
        super().put_samples(application, at, source, samples)
        if self.silent:
            raise StoreError("no answer")

    def tidy_samples(self, application: str, most: int, since: Seconds) -> int:
        self._ask(application)
        return super().tidy_samples(application, most, since)

    def applications(self) -> frozenset[str]:
        if self.away:
            raise StoreError("the store is away")
        return super().applications()

    def erase(self, application: str) -> int:
        self._ask(application)
        return super().erase(application)

    def _ask(self, application: str) -> None:
        self.asked.append(application)
        if self.away or application in self.away_for:
            raise StoreError("the store is away")
