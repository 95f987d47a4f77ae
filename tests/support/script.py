"""Telling a policy a few events by hand."""

from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId


class Script:
    """Requests `q1`, `q2`, ... in the order they were asked for; the clock stands where `now` is set."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now = 0.0
        self._asked = 0

    def run(
        self,
        run: str,
        *,
        tenant: str = "t",
        application: str = "a",
        cost: float | None = None,
        prompt: float | None = None,
        output: float | None = None,
    ) -> None:
        announced = Run(RunId(run), TenantId(tenant), ApplicationId(application), cost, prompt, output)
        self.policy.run_arrived(announced, self.now)

    def ask(self, run: str, prompt: int = 10, output: float | None = None) -> RequestId:
        self._asked += 1
        request = RequestId(f"q{self._asked}")
        self.policy.request_arrived(Request(request, RunId(run), prompt, output), self.now)
        return request

    def ask_alone(
        self, *, tenant: str = "t", application: str = "a", prompt: int = 10, output: float | None = None
    ) -> RequestId:
        """A request that is a run of its own."""
        run = f"r{self._asked + 1}"
        self.run(run, tenant=tenant, application=application)
        return self.ask(run, prompt, output)

    def admit(self) -> RequestId:
        head = self.policy.head()
        assert head is not None
        self.policy.admitted(head, self.now)
        return head

    def admit_all(self) -> list[RequestId]:
        admitted = []
        while self.policy.head() is not None:
            admitted.append(self.admit())
        return admitted

    def produce(self, request: RequestId, tokens: int, prefilled: int = 0) -> None:
        self.policy.stepped(Step([Progress(request, prefilled=prefilled, produced=tokens)]), self.now)

    def finish(self, request: RequestId) -> None:
        self.policy.finished(request, self.now)

    def end(self, run: str) -> None:
        self.policy.run_ended(RunId(run), self.now)

    def preempt(self) -> RequestId:
        victim = self.policy.victim()
        assert victim is not None
        self.policy.preempted(victim, self.now)
        return victim
