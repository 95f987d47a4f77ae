"""Requests as an admission tracks them, and who hears of them."""

from justitia_sidecar.admission.request import Observer, RequestShape, Timing, TokenAccount, TrackedRequest
from justitia_sidecar.admission.runs import TrackedRun
from justitia_vocabulary.units import RequestId, Seconds, Tokens


class Hearing:
    """Keeps what it hears, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.counts: list[tuple[Tokens, Tokens]] = []
        """Tokens of prompt and output, each time that something was counted."""

    def admitted(self, request: TrackedRequest) -> None:
        self.events.append("admitted")

    def begun(self, request: TrackedRequest) -> None:
        self.events.append("begun")

    def displaced(self, request: TrackedRequest) -> None:
        self.events.append("displaced")

    def estimated(self, request: TrackedRequest, output: Tokens) -> None:
        self.events.append("estimated")

    def counted(self, request: TrackedRequest) -> None:
        self.events.append("counted")
        self.counts.append((request.account.prompt, request.account.produced))


def hearing(request: TrackedRequest) -> Hearing:
    """Who hears of a request that was made here."""
    assert isinstance(request.observer, Hearing)
    return request.observer


def tracked_request(
    name: str,
    run: TrackedRun,
    *,
    prompt: Tokens = 50,
    exact: bool = True,
    output: Tokens = 40,
    fixed: bool = False,
    streamed: bool = True,
    prompts: int = 1,
    sequences: int = 1,
    arrival: Seconds = 0.0,
    first_token: Seconds | None = None,
    produced: Tokens = 0,
    boosted_for: Seconds | None = None,
    observer: Observer | None = None,
) -> TrackedRequest:
    """A request of the run."""
    return TrackedRequest(
        id=RequestId(name),
        tenant=run.tenant,
        application=run.application.id,
        run=run,
        asks=RequestShape(output, fixed, streamed, prompts, sequences),
        account=TokenAccount(prompt, exact, produced),
        timing=Timing(arrival, first_token=first_token),
        observer=observer or Hearing(),
        boosted_for=boosted_for,
    )
