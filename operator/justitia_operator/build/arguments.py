"""The engine's command line: what the operator sets, what users add, and what they may not."""

from justitia_api.engine import EngineSpec, ModelSpec
from justitia_api.pool import ServingPoolSpec
from justitia_api.wire import ENGINE_PORT

SCHEDULER_CLASS = "justitia_engine.scheduler.JustitiaScheduler"

NO_DOMAIN = "none.invalid"

SPANS = "set spec.engine.nodes"
LEADER_VARIABLE, RANK_VARIABLE = "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"
"""Environment variables that a LeaderWorkerSet gives its pods."""

ONE_CORE = "the sidecar does not support engines with several cores: set spec.replicas for more engines"
ONE_SERVER = "the sidecar supports only the one server that the operator starts"
TLS = "the engine listens on loopback only"

# vLLM's option parser takes underscores for dashes, `--flag=value`, and any unambiguous beginning of a flag.
REFUSED_FLAGS = {
    "--model": "set spec.model.uri",
    "--served-model-name": "set spec.model.name",
    "--host": "the engine listens on loopback, behind the sidecar",
    "--port": "the engine listens on loopback, behind the sidecar",
    "--uds": "the engine listens on loopback, behind the sidecar",
    "--root-path": "the sidecar expects the engine's default paths",
    "--api-key": "clients authenticate at the sidecar, with the Tenant's apiKeys",
    "--ssl-keyfile": TLS,
    "--ssl-certfile": TLS,
    "--ssl-ca-certs": TLS,
    "--ssl-cert-reqs": TLS,
    "--ssl-ciphers": TLS,
    "--enable-ssl-refresh": TLS,
    "--middleware": "it could answer or change requests that the sidecar accounts for",
    "--grpc": ONE_SERVER,
    "--grpc-port": ONE_SERVER,
    "--api-server-count": ONE_SERVER,
    "-asc": ONE_SERVER,
    "--disable-log-stats": "the sidecar needs the engine's counts to see how full it is and whether it hangs",
    "--data-parallel-size": ONE_CORE,
    "-dp": ONE_CORE,
    "--data-parallel-size-local": ONE_CORE,
    "-dpl": ONE_CORE,
    "--data-parallel-rank": ONE_CORE,
    "-dpn": ONE_CORE,
    "--data-parallel-start-rank": ONE_CORE,
    "-dpr": ONE_CORE,
    "--data-parallel-address": ONE_CORE,
    "-dpa": ONE_CORE,
    "--data-parallel-rpc-port": ONE_CORE,
    "-dpp": ONE_CORE,
    "--data-parallel-backend": ONE_CORE,
    "-dpb": ONE_CORE,
    "--data-parallel-hybrid-lb": ONE_CORE,
    "-dph": ONE_CORE,
    "--data-parallel-external-lb": ONE_CORE,
    "-dpe": ONE_CORE,
    "--data-parallel-multi-port-external-lb": ONE_CORE,
    "-dpm": ONE_CORE,
    "--data-parallel-supervisor-port": ONE_CORE,
    "--enable-elastic-ep": ONE_CORE,
    "--scheduling-policy": "set spec.scheduling.policy",
    "--scheduler-cls": "set spec.scheduling.policy",
    "--enable-force-include-usage": "tenants are charged by the usage that it reports",
    "--no-enable-force-include-usage": "tenants are charged by the usage that it reports",
    "--config": "a file could override what the operator sets: give its arguments here",
    "--headless": "the sidecar needs the engine's API",
    "--nnodes": SPANS,
    "--node-rank": SPANS,
    "--master-addr": SPANS,
    "--master-port": SPANS,
    "-n": SPANS,
    "-r": SPANS,
    "--lora-modules": "set spec.model.adapters",
    "--enable-lora": "set spec.model.adapters",
    "--allowed-media-domains": "set spec.engine.mediaDomains",
}

REFUSED_VARIABLES = {
    "VLLM_DP_SIZE": ONE_CORE,
    "VLLM_DP_RANK": ONE_CORE,
    "VLLM_DP_RANK_LOCAL": ONE_CORE,
    "VLLM_DP_MASTER_IP": ONE_CORE,
    "VLLM_DP_MASTER_PORT": ONE_CORE,
    "VLLM_ELASTIC_EP_SCALE_UP_LAUNCH": ONE_CORE,
    "VLLM_USE_RUST_FRONTEND": ONE_SERVER,
    "VLLM_RUST_FRONTEND_PATH": ONE_SERVER,
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "a domain of spec.engine.mediaDomains could lead to any other",
    "VLLM_MODEL_REDIRECT_PATH": "set spec.model.uri",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "a server whose engine has ended must end too, to be restarted",
}
"""Environment variables that do what a refused argument does."""


def refused_argument(engine: EngineSpec) -> str | None:
    """Explains the first argument that would override one of ours, and what to do instead. None if all are allowed."""
    if engine.args and not engine.args[0].startswith("-"):
        return (
            f"engine.args begins with {engine.args[0]!r}, which is not an option: vLLM would read it as one more "
            "value of an option that the operator sets; begin with an option"
        )
    for argument in engine.args:
        flag = argument.split("=", 1)[0].split(".", 1)[0].replace("_", "-")
        if (meant := _meant(flag)) is not None:
            why = REFUSED_FLAGS[meant]
            return f"engine.args sets {flag}, which the operator does not allow: {why}; remove it from engine.args"
    return None


def refused_variable(engine: EngineSpec) -> str | None:
    """Explains the first environment variable that would override a setting of ours. None if all are allowed."""
    for name in (variable.name for variable in engine.env):
        if (instead := REFUSED_VARIABLES.get(name)) is not None:
            return f"engine.env sets {name}, which the operator does not allow: {instead}; remove it from engine.env"
    return None


def _meant(flag: str) -> str | None:
    """The refused flag that vLLM's parser may read this one as."""
    if flag in REFUSED_FLAGS:
        return flag
    if flag.startswith("--"):
        return next((ours for ours in REFUSED_FLAGS if len(flag) > 2 and ours.startswith(flag)), None)
    return flag[:2] if flag[:2] in REFUSED_FLAGS else None


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
    """The command line of an engine's part on a further node. All parts get the same arguments for how a step is
    computed.
    """
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
        # vLLM takes an empty list for all domains there are; one that cannot exist is none.
        "--allowed-media-domains",
        *(pool.engine.media_domains or (NO_DOMAIN,)),
        *([f"--scheduler-cls={SCHEDULER_CLASS}"] if plugged(pool) else []),
        *_adapters(pool.model),
        *pool.engine.args,
    ]


def _adapters(model: ModelSpec) -> list[str]:
    if not model.adapters:
        return []
    return ["--enable-lora", "--lora-modules", *(f"{adapter.name}={adapter.location}" for adapter in model.adapters)]


def plugged(pool: ServingPoolSpec) -> bool:
    """Whether the engine loads our plug-in."""
    return pool.scheduling.enforcement == "Engine"
