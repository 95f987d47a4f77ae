"""The engine's command line: what the operator sets, what users add, and what they may not."""

from justitia_api.engine import Engine, Model
from justitia_api.pool import ServingPoolSpec
from justitia_api.wire import ENGINE_PORT

SCHEDULER_CLASS = "justitia_engine.scheduler.JustitiaScheduler"

SPANS = "set spec.engine.nodes"
LEADER_VARIABLE, RANK_VARIABLE = "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"
"""Environment variables of a LeaderWorkerSet's pods."""

# vLLM's option parser takes underscores for dashes, `--flag=value`, and any unambiguous beginning of a flag.
REFUSED_FLAGS = {
    "--model": "set spec.model.uri",
    "--served-model-name": "set spec.model.name",
    "--host": "the engine listens on loopback, behind the scheduler",
    "--port": "the engine listens on loopback, behind the scheduler",
    "--uds": "the engine listens on loopback, behind the scheduler",
    "--root-path": "the scheduler knows the engine's paths",
    "--api-key": "clients authenticate at the scheduler, with the Tenant's apiKeys",
    "--ssl-keyfile": "the engine listens on loopback only",
    "--ssl-certfile": "the engine listens on loopback only",
    "--scheduling-policy": "set spec.scheduling.policy",
    "--scheduler-cls": "set spec.scheduling.policy",
    "--enable-force-include-usage": "tenants are charged by it",
    "--no-enable-force-include-usage": "tenants are charged by it",
    "--config": "a file could override what the operator sets: give its arguments here",
    "--headless": "the scheduler needs the engine's API",
    "--nnodes": SPANS,
    "--node-rank": SPANS,
    "--master-addr": SPANS,
    "--master-port": SPANS,
    "-n": SPANS,
    "-r": SPANS,
    "--lora-modules": "set spec.model.adapters",
    "--enable-lora": "set spec.model.adapters",
}


def refused_argument(engine: Engine) -> str | None:
    """What is wrong with the engine's arguments: the first that would override one of ours, and what to do instead."""
    for argument in engine.args:
        flag = argument.split("=", 1)[0].replace("_", "-")
        if not flag.startswith("--"):
            flag = flag[:2]
        meant = next(
            (ours for ours in REFUSED_FLAGS if ours == flag or (len(flag) > 2 and ours.startswith(flag))), None
        )
        if meant is not None:
            return (
                f"engine.args has {flag}, which is not yours to set: {REFUSED_FLAGS[meant]}; remove it from engine.args"
            )
    return None


def engine_command(pool: ServingPoolSpec) -> list[str]:
    """The engine's command line without the interpreter: vLLM's OpenAI server on loopback."""
    return [
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--host=127.0.0.1",
        f"--port={ENGINE_PORT}",
        f"--model={pool.model.location}",
        *(_among_nodes(pool, "0") if pool.engine.nodes > 1 else []),
        *_common(pool),
    ]


def worker_command(pool: ServingPoolSpec) -> list[str]:
    """That of an engine's part on a further node. What decides how a step is computed is the same on all of them."""
    return [
        "-m",
        "vllm.entrypoints.cli.main",
        "serve",
        pool.model.location,
        "--headless",
        *_among_nodes(pool, f"$({RANK_VARIABLE})"),
        *_common(pool),
    ]


def _among_nodes(pool: ServingPoolSpec, rank: str) -> list[str]:
    return [f"--nnodes={pool.engine.nodes}", f"--node-rank={rank}", f"--master-addr=$({LEADER_VARIABLE})"]


def _common(pool: ServingPoolSpec) -> list[str]:
    return [
        f"--served-model-name={pool.model.served_name}",
        "--scheduling-policy=priority",
        "--enable-force-include-usage",
        *([f"--scheduler-cls={SCHEDULER_CLASS}"] if plugged(pool) else []),
        *_adapters(pool.model),
        *pool.engine.args,
    ]


def _adapters(model: Model) -> list[str]:
    if not model.adapters:
        return []
    return ["--enable-lora", "--lora-modules", *(f"{adapter.name}={adapter.location}" for adapter in model.adapters)]


def plugged(pool: ServingPoolSpec) -> bool:
    """Whether the engine loads a scheduler of ours."""
    return pool.scheduling.enforcement == "Engine"
