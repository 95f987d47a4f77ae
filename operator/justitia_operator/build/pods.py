"""The pod of one engine: vLLM, which listens on loopback only, and the sidecar in front of it, which is the only way
in. The sidecar is a native one: an init container that always restarts. The configuration is mounted, so that a change
of it restarts nothing.

When a pod goes, its endpoint leaves first. Then the engine's `preStop` asks the sidecar to drain, and waits until all
that had begun is over.

If an engine spans nodes, that pod is the leader, and a worker on each further node runs the rest of the engine. They go
together, and a worker ends last.
"""

from collections.abc import Sequence
from importlib.resources import files

from justitia_api.engine import MODEL_DIRECTORY, EngineSpec, EnvironmentVariable, ModelSpec
from justitia_api.pool import ServingPool, ServingPoolSpec
from justitia_api.resource import SecretKeyReference
from justitia_api.wire import ADMIN_PORT, CONTROL_PORT, ENGINE_PORT, PEER_PORT, PUBLIC_PORT
from justitia_operator.build.arguments import LEADER_VARIABLE, engine_command, plugged, worker_command
from justitia_operator.build.artifact_store import store_environment, store_mounts, store_url, store_volumes
from justitia_operator.build.documents import CONFIG_FILE, KEYS_FILE
from justitia_operator.build.picker import PICKER_MOUNT, PICKER_SOCKET, PICKER_VOLUME, build_picker_container, picks
from justitia_operator.build.shared_valkey import valkey_environment, valkey_mounts, valkey_volumes
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import (
    DELIVERY_CONTAINER,
    ENGINE_CONTAINER,
    SIDECAR_CONTAINER,
    WORKER_CONTAINER,
    children_name,
    selector_of,
)
from justitia_operator.world.objects import Json

CONFIG_DIRECTORY = "/etc/justitia/config"
KEYS_DIRECTORY = "/etc/justitia/keys"

SUPERVISE = (files("justitia_operator.build") / "supervise.py").read_text()
"""The program that runs the engine, in an image that is not ours."""

USER_ID = 65532
PROBE_SECONDS = 5
ENDPOINT_LEAVE_SECONDS = 10
STOP_SECONDS = 30
"""Time that vLLM and the sidecar may take to end once nothing runs."""

PLUGIN_DIRECTORY = "/plugin"
PLUGIN_MOUNT = {"name": "plugin", "mountPath": PLUGIN_DIRECTORY}
ENGINE_SOCKET = f"{PLUGIN_DIRECTORY}/engine.sock"
ENGINE_KEEP_ALIVE = 120
"""Seconds for which vLLM's server keeps an idle connection. Its own 5 s are too few: while it is too busy to read, it
closes a connection on which a request has just come.
"""
CACHE_DIRECTORY = "/cache"
SAMPLES_DIRECTORY = "/samples"
ARTIFACTS_DIRECTORY = "/artifacts"
SAMPLES_LIMIT = "1Gi"
HANG_FILE = "/tmp/engine-hangs"
"""In the folder that sidecar and engine share."""
HANG_GRACE_SECONDS = 5
"""Less than a pod that goes waits before it drains: the sidecar stays, and must not be asked to drain."""


def build_pod(pool: ServingPool, installation: Installation) -> Json:
    """Builds the spec of the pod with the sidecar."""
    name, engine, spec = children_name(pool.metadata.name), pool.spec.engine, pool.spec
    sidecar_image = installation.sidecar_image
    pod = {
        **_frame(name, engine),
        "initContainers": [
            *([build_delivery_container(sidecar_image)] if plugged(spec) else []),
            *(
                [build_picker_container(pool, sidecar_image, restricted() | {"readOnlyRootFilesystem": True})]
                if picks(spec)
                else []
            ),
            build_sidecar_container(pool, installation),
        ],
        "containers": [build_engine_container(pool)],
        "volumes": [
            {"name": "config", "configMap": {"name": name}},
            {"name": "keys", "secret": {"secretName": name, "defaultMode": 0o440}},
            *([PICKER_VOLUME] if picks(spec) else []),
            *valkey_volumes(pool, installation),
            *_learning_volumes(spec),
            *_volumes(spec, installation),
        ],
    }
    return pod | _placement(engine) | _spread(pool.metadata.name, engine)


def build_worker_pod(pool: ServingPool, installation: Installation) -> Json:
    """Builds the spec of an engine's pod on each node but the first."""
    name, engine, spec = children_name(pool.metadata.name), pool.spec.engine, pool.spec
    delivery = {"initContainers": [build_delivery_container(installation.sidecar_image)]} if plugged(spec) else {}
    pod = {
        **_frame(name, engine),
        **delivery,
        "containers": [build_worker_container(pool)],
        "volumes": _volumes(spec, installation),
    }
    return pod | _placement(engine)


def _frame(account: str, engine: EngineSpec) -> Json:
    """Fields that all pods have, whatever runs in them."""
    return {
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": ENDPOINT_LEAVE_SECONDS + engine.drain_seconds + STOP_SECONDS,
        "securityContext": restricted_pod(),
    }


def _volumes(pool: ServingPoolSpec, installation: Installation) -> list[Json]:
    """Volumes of vLLM."""
    return [
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": _shared_memory(pool.engine)},
        {"name": "cache", **_cache(pool.engine, installation)},
        *_model_volumes(pool.model),
        *([{"name": "plugin", "emptyDir": {}}] if plugged(pool) else []),
    ]


def _spread(pool: str, engine: EngineSpec) -> Json:
    """Spreads engines over the topology, by their pods with a sidecar. Pods of another revision do not count."""
    if not engine.topology_spread:
        return {}
    revision = "pod-template-hash" if engine.nodes == 1 else "leaderworkerset.sigs.k8s.io/template-revision-hash"
    selector = {"labelSelector": {"matchLabels": selector_of(pool)}, "matchLabelKeys": [revision]}
    return {"topologySpreadConstraints": [s.model_dump(by_alias=True) | selector for s in engine.topology_spread]}


def _placement(engine: EngineSpec) -> Json:
    """The placement that users ask for. Fields that they do not set are left out."""
    placement: Json = {
        "nodeSelector": dict(engine.node_selector),
        "tolerations": [t.model_dump(by_alias=True, exclude_none=True) for t in engine.tolerations],
        "priorityClassName": engine.priority_class_name,
        "runtimeClassName": engine.runtime_class_name,
        "imagePullSecrets": [{"name": secret.name} for secret in engine.image_pull_secrets],
    }
    return {name: value for name, value in placement.items() if value}


def _shared_memory(engine: EngineSpec) -> Json:
    limit = {} if engine.shared_memory is None else {"sizeLimit": str(engine.shared_memory)}
    return {"medium": "Memory", **limit}


def _cache(engine: EngineSpec, installation: Installation) -> Json:
    match engine.model_cache:
        case None:
            return {"emptyDir": {}}
        case cache if cache.claim_name is not None:
            return {"persistentVolumeClaim": {"claimName": cache.claim_name}}
        case _:
            return {"hostPath": {"path": installation.node_cache_path, "type": "Directory"}}


def _model_volumes(model: ModelSpec) -> list[Json]:
    """The model's volume, if the engine does not load the model itself."""
    if model.claim is not None:
        return [{"name": "model", "persistentVolumeClaim": {"claimName": model.claim, "readOnly": True}}]
    if model.image is not None:
        return [{"name": "model", "image": {"reference": model.image}}]
    return []


def build_delivery_container(image: str) -> Json:
    """Copies our plug-in to where the engine loads it: the engine's image is not ours."""
    return {
        "name": DELIVERY_CONTAINER,
        "image": image,
        "command": ["python", "-m", "justitia_sidecar.deliver", PLUGIN_DIRECTORY],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": restricted() | {"readOnlyRootFilesystem": True},
        "volumeMounts": [PLUGIN_MOUNT],
    }


def build_sidecar_container(pool: ServingPool, installation: Installation) -> Json:
    with_plugin = plugged(pool.spec)
    return {
        "name": SIDECAR_CONTAINER,
        "image": installation.sidecar_image,
        "restartPolicy": "Always",
        "command": ["python", "-m", "justitia_sidecar"],
        "env": [
            {"name": "JUSTITIA_CONFIG_FILE", "value": f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"},
            {"name": "JUSTITIA_KEYS_FILE", "value": f"{KEYS_DIRECTORY}/{KEYS_FILE}"},
            {"name": "JUSTITIA_ENGINE_URL", "value": f"http://127.0.0.1:{ENGINE_PORT}"},
            {"name": "JUSTITIA_HOST", "value": "0.0.0.0"},
            {"name": "JUSTITIA_PORT", "value": str(PUBLIC_PORT)},
            {"name": "JUSTITIA_ADMIN_PORT", "value": str(ADMIN_PORT)},
            {"name": "JUSTITIA_CONTROL_PORT", "value": str(CONTROL_PORT)},
            {"name": "JUSTITIA_CONTROL_FOLDER", "value": KEYS_DIRECTORY},
            {"name": "JUSTITIA_HANG_FILE", "value": HANG_FILE},
            {"name": "JUSTITIA_HANG_SECONDS", "value": str(pool.spec.engine.hang_seconds)},
            *(_environment_with_plugin() if with_plugin else []),
            *([PICKER_SOCKET, _own_address("JUSTITIA_PUBLIC_ADDRESS")] if picks(pool.spec) else []),
            *valkey_environment(pool, installation),
            *_learning_environment(pool),
        ],
        "ports": [
            {"name": "http", "containerPort": PUBLIC_PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP"},
            {"name": "control", "containerPort": CONTROL_PORT, "protocol": "TCP"},
            *([{"name": "peer", "containerPort": PEER_PORT, "protocol": "TCP"}] if with_plugin else []),
        ],
        # The engine starts once the sidecar has started, so the sidecar must not wait for the engine.
        "startupProbe": _probe("/healthz", failures=60),
        "livenessProbe": _probe("/healthz", failures=6),
        "readinessProbe": _probe("/readyz", failures=1),
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": restricted() | {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True},
            {"name": "keys", "mountPath": KEYS_DIRECTORY, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            *([PLUGIN_MOUNT] if with_plugin else []),
            *([PICKER_MOUNT] if picks(pool.spec) else []),
            *valkey_mounts(pool, installation),
            *_learning_mounts(pool.spec),
        ],
    }


def _environment_with_plugin() -> list[Json]:
    """Where the plug-in connects. Pools whose engines keep the order pass requests on to each other."""
    return [
        {"name": "JUSTITIA_ENGINE_SOCKET", "value": ENGINE_SOCKET},
        {"name": "JUSTITIA_PEER_PORT", "value": str(PEER_PORT)},
        _own_address("JUSTITIA_PEER_ADDRESS"),
        {"name": "JUSTITIA_PEER_FOLDER", "value": KEYS_DIRECTORY},
    ]


def _own_address(variable: str) -> Json:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def _learning_environment(pool: ServingPool) -> list[Json]:
    if pool.spec.learning is None:
        return []
    store = pool.spec.learning.store
    return [
        {"name": "JUSTITIA_SAMPLES_FILE", "value": f"{SAMPLES_DIRECTORY}/samples.sqlite"},
        {"name": "JUSTITIA_STORE_URL", "value": store_url(pool, store)},
        # Vectors are small: threads would wait for each other more than they compute.
        {"name": "OPENBLAS_NUM_THREADS", "value": "1"},
        *store_environment(store),
        *([{"name": "JUSTITIA_ARTIFACTS_FOLDER", "value": ARTIFACTS_DIRECTORY}] if pool.spec.learning.image else []),
    ]


def _learning_volumes(pool: ServingPoolSpec) -> list[Json]:
    if pool.learning is None:
        return []
    return [
        {"name": "samples", "emptyDir": {"sizeLimit": SAMPLES_LIMIT}},
        *store_volumes(pool.learning.store),
        *([{"name": "artifacts", "image": {"reference": pool.learning.image}}] if pool.learning.image else []),
    ]


def _learning_mounts(pool: ServingPoolSpec) -> list[Json]:
    if pool.learning is None:
        return []
    return [
        {"name": "samples", "mountPath": SAMPLES_DIRECTORY},
        *store_mounts(pool.learning.store),
        *([{"name": "artifacts", "mountPath": ARTIFACTS_DIRECTORY, "readOnly": True}] if pool.learning.image else []),
    ]


def build_engine_container(pool: ServingPool) -> Json:
    engine = pool.spec.engine
    socket = [{"name": "JUSTITIA_SOCKET", "value": ENGINE_SOCKET}] if plugged(pool.spec) else []
    return {
        **_vllm(pool, socket),
        "name": ENGINE_CONTAINER,
        "args": engine_command(pool.spec),
        # Loopback cannot be probed from outside: the sidecar reports whether the engine answers, and whether it hangs.
        # vLLM's server ends by itself when its engine dies.
        "startupProbe": _probe("/readyz", failures=engine.startup_seconds // PROBE_SECONDS),
        "livenessProbe": {
            "exec": {"command": ["test", "!", "-e", HANG_FILE]},
            "periodSeconds": PROBE_SECONDS,
            "timeoutSeconds": 3,
            "failureThreshold": 1,
            "terminationGracePeriodSeconds": HANG_GRACE_SECONDS,
        },
        "lifecycle": {"preStop": {"exec": {"command": _drain_command(engine)}}},
    }


def build_worker_container(pool: ServingPool) -> Json:
    return {
        **_vllm(pool),
        "name": WORKER_CONTAINER,
        "args": worker_command(pool.spec),
        "lifecycle": {"preStop": {"exec": {"command": _wait_command(pool.spec.engine)}}},
    }


def _vllm(pool: ServingPool, socket: Sequence[Json] = ()) -> Json:
    """Fields of a container that runs vLLM, as a whole or in part."""
    model, engine, with_plugin = pool.spec.model, pool.spec.engine, plugged(pool.spec)
    # Caches hold code too, so namespaces do not share them.
    on_node = {"subPath": pool.metadata.namespace} if engine.model_cache and engine.model_cache.type == "Node" else {}
    env: list[Json] = [
        {"name": "HOME", "value": CACHE_DIRECTORY},
        {"name": "USER", "value": "vllm"},
        {"name": "HF_HOME", "value": f"{CACHE_DIRECTORY}/huggingface"},
        {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
        {"name": "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "value": str(ENGINE_KEEP_ALIVE)},
        # A domain that is allowed could name any other.
        {"name": "VLLM_MEDIA_URL_ALLOW_REDIRECTS", "value": "0"},
        *([{"name": "PYTHONPATH", "value": PLUGIN_DIRECTORY}] if with_plugin else []),
        *socket,
    ]
    if engine.nodes > 1:
        env.append({"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    if model.token_secret_ref is not None:
        env.append(_from_secret("HF_TOKEN", model.token_secret_ref))
    return {
        "image": engine.image,
        "command": ["python3", "-c", SUPERVISE, str(ENGINE_PORT)],
        "env": [*env, *map(_variable, engine.env)],
        "resources": {
            part: {resource: str(amount) for resource, amount in amounts.items()}
            for part, amounts in (("limits", engine.resources.limits), ("requests", engine.resources.requests))
            if amounts
        },
        "securityContext": restricted(),
        "volumeMounts": [
            {"name": "cache", "mountPath": CACHE_DIRECTORY, **on_node},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
            *([{"name": "model", "mountPath": MODEL_DIRECTORY, "readOnly": True}] if _model_volumes(model) else []),
            *([PLUGIN_MOUNT] if with_plugin else []),
        ],
    }


def _drain_command(engine: EngineSpec) -> list[str]:
    """Waits until no new request comes, then until the running ones have finished. It does not wait if the engine never
    listened. It uses the engine image's Python: the image may lack curl.
    """
    code = f"""\
import socket, sys, time
from urllib.request import Request, urlopen

try:
    socket.create_connection(('127.0.0.1', {ENGINE_PORT}), timeout=2).close()
except ConnectionRefusedError:
    sys.exit()
except OSError:
    pass
time.sleep({ENDPOINT_LEAVE_SECONDS})
urlopen(Request('http://127.0.0.1:{ADMIN_PORT}/internal/drain', method='POST'), timeout={engine.drain_seconds})
"""
    return ["python3", "-c", code]


def _wait_command(engine: EngineSpec) -> list[str]:
    """Waits until the leader has drained. The leader goes when a worker does, and its sidecar ends after its engine."""
    code = f"""\
import os, time
from urllib.request import urlopen

end = time.monotonic() + {ENDPOINT_LEAVE_SECONDS + engine.drain_seconds}
try:
    while time.monotonic() < end:
        urlopen('http://' + os.environ['{LEADER_VARIABLE}'] + ':{ADMIN_PORT}/healthz', timeout=5)
        time.sleep(1)
except OSError:
    pass
"""
    return ["python3", "-c", code]


def _variable(variable: EnvironmentVariable) -> Json:
    if variable.secret_ref is not None:
        return _from_secret(variable.name, variable.secret_ref)
    return {"name": variable.name, "value": variable.value}


def _from_secret(name: str, reference: SecretKeyReference) -> Json:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": reference.name, "key": reference.key}}}


def _probe(path: str, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": ADMIN_PORT},
        "periodSeconds": PROBE_SECONDS,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def restricted_pod() -> Json:
    """The security context that meets the restricted Pod Security Standard."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def restricted() -> Json:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
