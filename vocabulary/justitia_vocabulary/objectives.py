"""Service level objectives: what they measure, and how they stand."""

from enum import StrEnum


class MetricName(StrEnum):
    """What an objective is about, in seconds."""

    TIME_TO_FIRST_TOKEN = "TimeToFirstToken"
    """From a request's arrival to its first token."""
    TIME_PER_OUTPUT_TOKEN = "TimePerOutputToken"
    """From a request's first token to its last, per token after the first."""
    REQUEST_COMPLETION = "RequestCompletion"
    """From a request's arrival to its last token."""
    RUN_COMPLETION = "RunCompletion"
    """From a run's arrival to the last token of its last request."""

    @property
    def since_arrival(self) -> bool:
        """Whether something that has no value yet, and is older than the bound, is known to miss it."""
        return self is not MetricName.TIME_PER_OUTPUT_TOKEN

    @property
    def of_requests(self) -> bool:
        """Whether it is about single requests, not about whole runs."""
        return self is not MetricName.RUN_COMPLETION


class BeyondObjective(StrEnum):
    """What becomes of a request that is expected to miss an objective's bound when it arrives."""

    SAY = "Say"
    """It is served as any other, and its answer says what is expected."""
    DEFER = "Defer"
    """The same, but it goes by its run: it takes no place from requests that can still meet their bounds."""
    REFUSE = "Refuse"


class ObjectiveState(StrEnum):
    """How an objective stands."""

    MET = "Met"
    AT_RISK = "AtRisk"
    """Its error budget is being spent too fast."""
    MISSED = "Missed"
    """Its error budget is spent."""
    UNATTAINABLE = "Unattainable"
    """It misses, and no gamma holds it: the load is too large, or another objective asks for the opposite."""
