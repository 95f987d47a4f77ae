"""How runs are served in the experiments with tiered Justitia.

*Engine.* `a10g-llama2-7b-vllm`: validated step times with vLLM's habits; M = 7,344 tokens of KV in blocks of 16,
optimistic admission, preempted requests are recomputed. Requests that would not fit are cut to M.

*Load.* Arrivals are stretched to an offered load u, stated in the iteration of `agent_runs.py`. Prefill, which this
engine does in steps of its own, is not in u.

*Traces.* Single requests shaped like Azure's conversation and code traces (lengths and bursts), or like Mooncake's
conversations (their arrivals, with Azure's lengths: Mooncake's prompts are longer than M). Arrivals are stretched until
the full engine, prefill included, has 1.2 times the window's work.

*Policies.* `vtc` is fair sharing on two levels, by weight between tenants and evenly between a tenant's runs, charged
p + 2d: with one tenant, VTC with a client for each run. All others charge tenants engine time. `srjf` is told the
truth; it knows no weights. The parts of tiered Justitia are taken away one at a time:

- `no-prompt-work`: a run's cost is its KV token-time alone;
- `attained-only`: what a run asks for is not looked at, only what it has been served;
- `no-revision`: what was told stands;
- `no-stretch`: kappa = 1.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from justitia_benchmarks.baselines import TwoLevelVTC
from justitia_benchmarks.experiments.agent_runs import full_iteration
from justitia_benchmarks.experiments.justitia.serving import as_served
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime, WeightedTokens
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.runcost import RunCosts
from justitia_scheduling.policies.tiered import BETA, THETA, THETA_LEARNED, TieredJustitia
from justitia_simulator.arrivals import azure_arrivals, conversation_arrivals, full_engine_seconds, scaled_to_load
from justitia_simulator.engine import Engine, Watcher
from justitia_simulator.mixes import CODE, CONVERSATION, RequestKind, single_requests
from justitia_simulator.prediction import PredictionSource, Told, find_prediction
from justitia_simulator.profiles import find_profile
from justitia_simulator.records import PolicyResults
from justitia_simulator.suite import agent_suite
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds, Tokens

PROFILE = find_profile("a10g-llama2-7b-vllm")
DEFAULT = "tiered-justitia"
LIARS = "liars:0.05:1000"
THOROUGH_LIARS = f"{LIARS}, outputs too"
TRACES: Mapping[str, tuple[RequestKind, Callable[[Seconds, int, random.Random], list[Seconds]]]] = {
    "azure-conversation": (CONVERSATION, lambda window, n, rng: azure_arrivals("conversation", n / window, n, rng)),
    "azure-code": (CODE, lambda window, n, rng: azure_arrivals("code", n / window, n, rng)),
    "mooncake": (CONVERSATION, lambda window, n, rng: conversation_arrivals(n, window, rng)),
}
"""Lengths of the requests, and so many moments in a window."""
TRACE_LOAD = 1.2
PARTS = ("no-prompt-work", "attained-only", "no-revision", "no-stretch")


class WithoutPromptWork(EngineTime):
    """Charges engine time, and knows nothing of what reading a prompt costs a run."""

    def prompt_work(self, capacity: Tokens) -> KVTokenTime:
        return 0.0


class AttainedCosts(RunCosts):
    """Estimates that only service raises."""

    def asked(self, request: OpenRequest, prompt_work: KVTokenTime) -> bool:
        return False

    def left(self, request: OpenRequest) -> None: ...


class AttainedOnly(TieredJustitia):
    """Tiered Justitia that does not look at what a run asks for."""

    def __init__(self) -> None:
        super().__init__(EngineTime(PROFILE.charge))
        self._costs = AttainedCosts(THETA, THETA_LEARNED)


def contender(
    name: str, *, kappa: float | None = None, theta: float | None = None, beta: float = BETA, burst: float | None = None
) -> Policy:
    """A fresh policy of that name; the settings are those of tiered Justitia."""
    charge = EngineTime(PROFILE.charge)
    own: dict[str, Callable[[], Policy]] = {
        "vtc": lambda: TwoLevelVTC(WeightedTokens()),
        "no-prompt-work": lambda: TieredJustitia(WithoutPromptWork(PROFILE.charge)),
        "attained-only": AttainedOnly,
        "no-revision": lambda: TieredJustitia(charge, kappa=THETA, theta=math.inf),
        "no-stretch": lambda: TieredJustitia(charge, kappa=1.0),
        DEFAULT: lambda: TieredJustitia(charge, kappa=kappa, theta=theta, beta=beta, burst=burst),
    }
    return own[name]() if name in own else build_policy(name, charge)


def told(name: str, seed: int) -> PredictionSource:
    """The prediction of that name; with `, outputs too`, liars understate what each of their requests will produce."""
    if name != THOROUGH_LIARS:
        return find_prediction(name, seed)
    plain = find_prediction(LIARS)
    return PredictionSource(name, lambda workload: _thorough(plain, workload))


def _thorough(liars: PredictionSource, workload: Sequence[WorkloadRun]) -> dict[RunId, Told]:
    said, lying = liars.tell(workload), liars_of(workload)
    divisor = float(liars.name.split(":")[2])
    return {
        run: replace(t, outputs=[None if o is None else o / divisor for o in t.outputs]) if run in lying else t
        for run, t in said.items()
    }


def liars_of(workload: Sequence[WorkloadRun]) -> set[RunId]:
    """The twentieth of the runs with most cost, which lie where some do."""
    share = float(LIARS.split(":")[1])
    return {run.id for run in sorted(workload, key=lambda run: -run.cost)[: round(share * len(workload))]}


def agents(count: int, seed: int, load: float, tenants: Mapping[str, float]) -> list[WorkloadRun]:
    """Runs of the agent classes at this offered load; `tenants` with the part of the demand that is theirs."""
    window = 540.0 * count / 300
    runs = [as_served(run) for run in agent_suite(count, seed=seed, window=window, tenants=tenants)]
    return scaled_to_load(runs, load, PROFILE.kv_tokens, full_iteration(runs, PROFILE))


def trace_shaped(name: str, count: int, seed: int, tenants: Mapping[str, float]) -> list[WorkloadRun]:
    """`count` requests of one of :data:`TRACES`, drawn onto the tenants in proportion to their part of the demand."""
    kind, arrivals = TRACES[name]
    rng = random.Random(f"{seed}/{name}")
    requests = [kind.draw(rng) for _ in range(count)]
    owners = rng.choices(list(tenants), list(tenants.values()), k=count)
    window = full_engine_seconds(requests, PROFILE) / TRACE_LOAD
    moments = arrivals(window, count, rng)
    return [as_served(run) for run in single_requests(list(zip(moments, owners, requests, strict=True)), kind.lengths)]


def serve(
    policy: Policy,
    workload: Sequence[WorkloadRun],
    prediction: PredictionSource,
    weights: Mapping[str, float],
    *,
    sample_every: Seconds,
    watcher: Watcher | None = None,
) -> PolicyResults:
    engine = Engine(policy, PROFILE, label="served", prediction=prediction, sample_every=sample_every, watcher=watcher)
    return engine.serve(workload, weights)
