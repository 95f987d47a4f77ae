"""What lies on the pod's disk goes to the store, in batches. One thread's business, as the disk is."""

from justitia_predictor.store import Store
from justitia_sidecar.learning.samples import Samples

BATCH = 500
"""Samples in one."""


class Flushing:
    """`pod` tells the batches of pods apart."""

    def __init__(self, samples: Samples, store: Store, pod: str) -> None:
        self._samples = samples
        self._store = store
        self._pod = pod
        self._tried: dict[str, int] = {}

    def put(self, application: str) -> bool:
        """One batch of what is not in the store yet. False: there is nothing. Raises StoreError and SamplesError.

        A store that gives no answer may have taken the batch. The next attempt is with the same samples and the same
        name, so that they are there once.
        """
        batch = self._samples.unflushed(application, BATCH)
        if (last := self._tried.get(application)) is not None:
            batch = [(number, sample) for number, sample in batch if number <= last] or batch
        if not batch:
            return False
        numbers, samples = zip(*batch, strict=True)
        self._tried[application] = numbers[-1]
        # A database may be a new one under the pod's old name: time tells its batches from those of the one before.
        at = max(sample.finished for sample in samples)
        self._store.put_samples(application, at, f"{self._pod}-{numbers[-1]}", list(samples))
        del self._tried[application]
        self._samples.flushed(numbers)
        return True
