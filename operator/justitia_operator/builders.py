"""The objects that a ServingPool is made of. Each function builds one, whole; nothing here looks at a cluster.

One pod is one engine: vLLM, which listens on loopback only, and the scheduler as a native sidecar (an init container
that is always restarted), which is the only way in. The pod's configuration is mounted, so that a change of it
restarts nothing.
"""

from base64 import b64encode

from justitia_api.application import LLMApplication
from justitia_api.config import KeyTable, PoolConfig
from justitia_api.pool import Engine, ServingPool, ServingPoolSpec
from justitia_api.resource import API_VERSION
from justitia_api.wire import ADMIN_PORT, ENGINE_PORT, PUBLIC_PORT
from justitia_operator.compare import sealed
from justitia_operator.documents import CONFIG_FILE, KEYS_FILE
from justitia_operator.objects import MANAGED_BY_LABEL, MANAGER, POOL_LABEL, Json, Kind

CONFIG_DIRECTORY = "/etc/justitia/config"
KEYS_DIRECTORY = "/etc/justitia/keys"
SCHEDULER_CONTAINER = "scheduler"
ENGINE_CONTAINER = "engine"
SERVICE_PORT = 80

USER_ID = 65532
MODEL_LOAD_SECONDS = 3600
PROBE_SECONDS = 5
ENDPOINT_LEAVE_SECONDS = 10
TERMINATION_SECONDS = 120

DELIVERY_CONTAINER = "deliver"
PLUGIN_DIRECTORY = "/plugin"
PLUGIN_MOUNT = {"name": "plugin", "mountPath": PLUGIN_DIRECTORY}
ENGINE_SOCKET = f"{PLUGIN_DIRECTORY}/engine.sock"
SCHEDULER_CLASS = "justitia_engine.scheduler.JustitiaScheduler"

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
}


def children_name(pool: str) -> str:
    """Name of all objects of a pool. The prefix keeps them apart from what users make themselves."""
    return f"justitia-{pool}"


def selector_of(pool: str) -> dict[str, str]:
    """Labels of a pool's pods."""
    return {"app.kubernetes.io/name": "justitia-pool", POOL_LABEL: pool}


def service_host(pool: str, namespace: str) -> str:
    return f"{children_name(pool)}.{namespace}.svc"


def refused_argument(engine: Engine) -> str | None:
    """What is wrong with the engine's arguments: the first that would override one of ours, and what to do instead."""
    for argument in engine.args:
        flag = argument.split("=", 1)[0].replace("_", "-")
        if not flag.startswith("--"):
            continue
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
    model = pool.model
    return [
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--host=127.0.0.1",
        f"--port={ENGINE_PORT}",
        f"--model={model.location}",
        f"--served-model-name={model.served_name}",
        "--scheduling-policy=priority",
        "--enable-force-include-usage",
        *([f"--scheduler-cls={SCHEDULER_CLASS}"] if _plugged(pool) else []),
        *pool.engine.args,
    ]


def _plugged(pool: ServingPoolSpec) -> bool:
    """Whether the engine loads a scheduler of ours."""
    return pool.scheduling.enforcement == "Engine"


def build_children(pool: ServingPool, config: PoolConfig, keys: KeyTable, sidecar_image: str) -> dict[Kind, Json]:
    """All objects of a pool, sealed, in the order in which they are to be applied."""
    return {
        Kind.SERVICE_ACCOUNT: build_service_account(pool),
        Kind.CONFIG_MAP: build_config_map(pool, config),
        Kind.SECRET: build_key_secret(pool, keys),
        Kind.SERVICE: build_service(pool),
        Kind.DEPLOYMENT: build_deployment(pool, sidecar_image),
        Kind.POD_DISRUPTION_BUDGET: build_disruption_budget(pool),
    }


def build_service_account(pool: ServingPool) -> Json:
    return _child(pool, Kind.SERVICE_ACCOUNT, {"automountServiceAccountToken": False})


def build_config_map(pool: ServingPool, config: PoolConfig) -> Json:
    text = config.model_dump_json(by_alias=True, indent=2)
    return _child(pool, Kind.CONFIG_MAP, {"data": {CONFIG_FILE: text}})


def build_key_secret(pool: ServingPool, keys: KeyTable) -> Json:
    """Digests of the keys; the keys themselves stay where they are."""
    text = keys.model_dump_json(by_alias=True)
    # `data` and not `stringData`: server-side apply would not take away what it wrote through the latter.
    encoded = b64encode(text.encode()).decode()
    return _child(pool, Kind.SECRET, {"type": "Opaque", "data": {KEYS_FILE: encoded}})


def build_service(pool: ServingPool) -> Json:
    port = {"name": "http", "port": SERVICE_PORT, "targetPort": PUBLIC_PORT, "protocol": "TCP"}
    return _child(pool, Kind.SERVICE, {"spec": {"selector": selector_of(pool.metadata.name), "ports": [port]}})


def build_disruption_budget(pool: ServingPool) -> Json:
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector_of(pool.metadata.name)},
    }
    return _child(pool, Kind.POD_DISRUPTION_BUDGET, {"spec": spec})


def build_deployment(pool: ServingPool, sidecar_image: str) -> Json:
    """One pod for each engine. A new pod serves before an old one goes, so that the last engine is never taken away."""
    selector = selector_of(pool.metadata.name)
    spec = {
        "replicas": pool.spec.replicas,
        "selector": {"matchLabels": selector},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "progressDeadlineSeconds": MODEL_LOAD_SECONDS,
        "template": {
            "metadata": {
                "labels": selector | {MANAGED_BY_LABEL: MANAGER},
                "annotations": {"kubectl.kubernetes.io/default-container": ENGINE_CONTAINER},
            },
            "spec": _pod(pool, sidecar_image),
        },
    }
    return _child(pool, Kind.DEPLOYMENT, {"spec": spec})


def _pod(pool: ServingPool, sidecar_image: str) -> Json:
    name, engine = children_name(pool.metadata.name), pool.spec.engine
    spec: Json = {
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [
            *([build_delivery_container(sidecar_image)] if _plugged(pool.spec) else []),
            build_scheduler_container(pool.spec, sidecar_image),
        ],
        "containers": [build_engine_container(pool.spec)],
        "volumes": [
            {"name": "config", "configMap": {"name": name}},
            {"name": "keys", "secret": {"secretName": name, "defaultMode": 0o440}},
            {"name": "cache", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            *([{"name": "plugin", "emptyDir": {}}] if _plugged(pool.spec) else []),
        ],
    }
    if engine.node_selector:
        spec["nodeSelector"] = dict(engine.node_selector)
    if engine.tolerations:
        spec["tolerations"] = [t.model_dump(by_alias=True, exclude_none=True) for t in engine.tolerations]
    return spec


def build_delivery_container(image: str) -> Json:
    """Brings the scheduler that the engine loads: the engine's image is not ours."""
    return {
        "name": DELIVERY_CONTAINER,
        "image": image,
        "command": ["python", "-m", "justitia_sidecar.deliver", PLUGIN_DIRECTORY],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": _restricted() | {"readOnlyRootFilesystem": True},
        "volumeMounts": [PLUGIN_MOUNT],
    }


def build_scheduler_container(pool: ServingPoolSpec, image: str) -> Json:
    plugged = _plugged(pool)
    return {
        "name": SCHEDULER_CONTAINER,
        "image": image,
        "restartPolicy": "Always",
        "command": ["python", "-m", "justitia_sidecar"],
        "env": [
            {"name": "JUSTITIA_CONFIG_FILE", "value": f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"},
            {"name": "JUSTITIA_KEYS_FILE", "value": f"{KEYS_DIRECTORY}/{KEYS_FILE}"},
            {"name": "JUSTITIA_ENGINE_URL", "value": f"http://127.0.0.1:{ENGINE_PORT}"},
            {"name": "JUSTITIA_HOST", "value": "0.0.0.0"},
            {"name": "JUSTITIA_PORT", "value": str(PUBLIC_PORT)},
            {"name": "JUSTITIA_ADMIN_PORT", "value": str(ADMIN_PORT)},
            *([{"name": "JUSTITIA_ENGINE_SOCKET", "value": ENGINE_SOCKET}] if plugged else []),
        ],
        "ports": [
            {"name": "http", "containerPort": PUBLIC_PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP"},
        ],
        # The engine starts once the scheduler has started, so this one must not wait for the engine.
        "startupProbe": _probe("/healthz", failures=60),
        "livenessProbe": _probe("/healthz", failures=6),
        "readinessProbe": _probe("/readyz", failures=1),
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": _restricted() | {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True},
            {"name": "keys", "mountPath": KEYS_DIRECTORY, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            *([PLUGIN_MOUNT] if plugged else []),
        ],
    }


def build_engine_container(pool: ServingPoolSpec) -> Json:
    model, engine, plugged = pool.model, pool.engine, _plugged(pool)
    env: list[Json] = [
        {"name": "HOME", "value": "/cache"},
        {"name": "USER", "value": "vllm"},
        {"name": "HF_HOME", "value": "/cache/huggingface"},
        {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
    ]
    if plugged:
        env.append({"name": "PYTHONPATH", "value": PLUGIN_DIRECTORY})
        env.append({"name": "JUSTITIA_SOCKET", "value": ENGINE_SOCKET})
    if model.token_secret_ref is not None:
        reference = {"name": model.token_secret_ref.name, "key": model.token_secret_ref.key}
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    return {
        "name": ENGINE_CONTAINER,
        "image": engine.image,
        "command": ["python3"],
        "args": engine_command(pool),
        "env": env,
        "resources": {
            part: {resource: str(amount) for resource, amount in amounts.items()}
            for part, amounts in (("limits", engine.resources.limits), ("requests", engine.resources.requests))
            if amounts
        },
        # Loopback cannot be probed from outside: the scheduler tells whether the engine answers. No liveness probe:
        # vLLM's server ends by itself when its engine dies.
        "startupProbe": _probe("/readyz", failures=MODEL_LOAD_SECONDS // PROBE_SECONDS),
        "lifecycle": {"preStop": {"sleep": {"seconds": ENDPOINT_LEAVE_SECONDS}}},
        "securityContext": _restricted(),
        "volumeMounts": [
            {"name": "cache", "mountPath": "/cache"},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
            *([PLUGIN_MOUNT] if plugged else []),
        ],
    }


def _probe(path: str, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": ADMIN_PORT},
        "periodSeconds": PROBE_SECONDS,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def _restricted() -> Json:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def build_inline_pool(application: LLMApplication, spec: Json) -> Json:
    """The ServingPool of an application that brings its own, from the inline pool as the user wrote it."""
    return sealed(
        {
            "apiVersion": API_VERSION,
            "kind": str(Kind.SERVING_POOL),
            "metadata": {
                "name": application.metadata.name,
                "namespace": application.metadata.namespace,
                "labels": {MANAGED_BY_LABEL: MANAGER},
                "ownerReferences": [_owner(Kind.LLM_APPLICATION, application.metadata.name, application.metadata.uid)],
            },
            "spec": spec,
        }
    )


def _child(pool: ServingPool, kind: Kind, content: Json) -> Json:
    metadata = pool.metadata
    return sealed(
        {
            "apiVersion": kind.api_version,
            "kind": str(kind),
            "metadata": {
                "name": children_name(metadata.name),
                "namespace": metadata.namespace,
                "labels": selector_of(metadata.name) | {MANAGED_BY_LABEL: MANAGER},
                "ownerReferences": [_owner(Kind.SERVING_POOL, metadata.name, metadata.uid)],
            },
            **content,
        }
    )


def _owner(kind: Kind, name: str, uid: str) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": str(kind),
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
