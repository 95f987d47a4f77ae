"""The objects that a ServingPool consists of. Each function builds one whole object."""

from base64 import b64encode
from collections.abc import Iterable, Mapping

from justitia_api.application import LLMApplication
from justitia_api.config import BoostMode, KeyTable, PoolConfig
from justitia_api.gateway import EndpointPicker, GatewaySpec
from justitia_api.pool import AutoscalingSpec, ServingPool
from justitia_api.resource import API_VERSION
from justitia_api.wire import (
    ADMIN_PORT,
    CERTIFICATE_FILE,
    CONTROL_PORT,
    PEER_CERTIFICATE_FILE,
    PEER_KEY_FILE,
    PEER_PORT,
    PEERS_FILE,
    PICKER_PORT,
    PRIVATE_KEY_FILE,
    PUBLIC_PORT,
    TOKEN_FILE,
)
from justitia_operator.build.arguments import plugged
from justitia_operator.build.credentials import PodCredentials
from justitia_operator.build.documents import CONFIG_FILE, KEYS_FILE
from justitia_operator.build.picker import picks
from justitia_operator.build.pods import build_pod, build_worker_pod
from justitia_operator.build.seal import content_hash, sealed
from justitia_operator.build.shared_valkey import valkey_entries
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import (
    ENGINE_CONTAINER,
    WORKER_CONTAINER,
    children_name,
    engines_kind,
    pods_of,
    selector_of,
    workers_of,
)
from justitia_operator.world.objects import MANAGED_BY_LABEL, MANAGER, POD_HASH_ANNOTATION, Json, Kind

SERVICE_PORT = 80
QUEUE_METRIC = "justitia_queued_requests"
NEED_METRIC = "justitia_slo_replicas_needed"
MODEL_HEADER = "X-Gateway-Model-Name"
"""Set by the body-based router of the Gateway API Inference Extension, from the request's model."""
MATCHES_OF_A_RULE = 64
"""The most matches that a rule of an HTTPRoute allows. A pool's model and its adapters are one each."""
UNLIMITED = {"request": "0s", "backendRequest": "0s"}
"""A gateway's own limits would cut long answers. The sidecar has limits."""
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
SCHEDULING_SECONDS = 600
"""Time that a new pod may need before its engine starts: to be scheduled, and to pull images. A rollout that takes
longer than this and the model's time has failed.
"""


def build_children(
    pool: ServingPool, config: PoolConfig, keys: KeyTable, credentials: PodCredentials, installation: Installation
) -> dict[Kind, Json]:
    """Builds all objects of a pool, sealed, in the order in which to apply them. It builds those of `OPTIONAL_KINDS`
    whether or not the cluster has these kinds.
    """
    children = {
        Kind.SERVICE_ACCOUNT: build_service_account(pool),
        Kind.CONFIG_MAP: build_config_map(pool, config),
        Kind.SECRET: build_key_secret(pool, keys, credentials, valkey_entries(pool, installation)),
        Kind.SERVICE: build_service(pool),
        Kind.POD_DISRUPTION_BUDGET: build_disruption_budget(pool),
        Kind.NETWORK_POLICY: build_network_policy(pool, installation),
    }
    autoscaling, gateway = pool.spec.autoscaling, pool.spec.gateway
    if engines_kind(pool) is Kind.DEPLOYMENT:
        children[Kind.DEPLOYMENT] = build_deployment(pool, installation)
    else:
        children[Kind.LEADER_WORKER_SET] = build_leader_worker_set(pool, installation)
    if autoscaling is not None and autoscaling.scaler == "HPA":
        children[Kind.HORIZONTAL_POD_AUTOSCALER] = build_autoscaler(pool, autoscaling)
    if autoscaling is not None and autoscaling.scaler == "KEDA":
        children[Kind.SCALED_OBJECT] = build_scaled_object(pool, autoscaling)
    if gateway is not None:
        if gateway.endpoint_picker is not None:
            children[Kind.INFERENCE_POOL] = build_inference_pool(pool, gateway.endpoint_picker)
        children[Kind.HTTP_ROUTE] = build_route(pool, gateway)
    return children


def build_service_account(pool: ServingPool) -> Json:
    return _child(pool, Kind.SERVICE_ACCOUNT, {"automountServiceAccountToken": False})


def build_config_map(pool: ServingPool, config: PoolConfig) -> Json:
    text = config.model_dump_json(by_alias=True, indent=2)
    return _child(pool, Kind.CONFIG_MAP, {"data": {CONFIG_FILE: text}})


def build_key_secret(pool: ServingPool, keys: KeyTable, credentials: PodCredentials, valkey: Mapping[str, str]) -> Json:
    """Holds digests of the API keys, not the keys, and credentials of the pods."""
    control, peers = credentials
    files = {
        KEYS_FILE: keys.model_dump_json(by_alias=True),
        CERTIFICATE_FILE: control.certificate,
        PRIVATE_KEY_FILE: control.private_key,
        TOKEN_FILE: control.token,
        PEER_CERTIFICATE_FILE: peers.certificate,
        PEER_KEY_FILE: peers.private_key,
        PEERS_FILE: peers.accepted,
        **valkey,
    }
    # `data` and not `stringData`: server-side apply would not take away what it wrote through the latter.
    encoded = {name: b64encode(text.encode()).decode() for name, text in files.items()}
    return _child(pool, Kind.SECRET, {"type": "Opaque", "data": encoded})


def build_service(pool: ServingPool) -> Json:
    """Leads clients to the sidecars, and gateways to the pool's endpoint pickers."""
    ports = [{"name": "http", "port": SERVICE_PORT, "targetPort": PUBLIC_PORT, "protocol": "TCP"}]
    if picks(pool.spec):
        ports.append({"name": "grpc-picker", "port": PICKER_PORT, "targetPort": PICKER_PORT, "protocol": "TCP"})
    return _child(pool, Kind.SERVICE, {"spec": {"selector": selector_of(pool.metadata.name), "ports": ports}})


def build_disruption_budget(pool: ServingPool) -> Json:
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": pods_of(pool.metadata.name)},
    }
    return _child(pool, Kind.POD_DISRUPTION_BUDGET, {"spec": spec})


def build_network_policy(pool: ServingPool, installation: Installation) -> Json:
    """Lets clients from anywhere reach the sidecar's API, which authenticates them, and gateways from anywhere the
    pool's endpoint pickers: where a gateway runs is not known. Only the pool's own pods reach the
    port for other sidecars, only the operator reaches the control port, and only the operator's namespace and that of
    the metrics reach the admin port. Every network plug-in lets kubelets in. The parts of an engine that spans nodes
    reach each other.
    """
    operator, metrics = installation.namespace, installation.metrics_namespace
    pods, sidecars = ({"matchLabels": of(pool.metadata.name)} for of in (pods_of, selector_of))
    spec = {
        "podSelector": pods,
        "policyTypes": ["Ingress"],
        "ingress": [
            {"ports": [_tcp(port) for port in (PUBLIC_PORT, *([PICKER_PORT] if picks(pool.spec) else []))]},
            *([{"ports": [_tcp(PEER_PORT)], "from": [{"podSelector": sidecars}]}] if plugged(pool.spec) else []),
            {"ports": [_tcp(CONTROL_PORT)], "from": _from_namespaces({operator})},
            {"ports": [_tcp(ADMIN_PORT)], "from": _from_namespaces({operator, metrics})},
            *([{"from": [{"podSelector": pods}]}] if pool.spec.engine.nodes > 1 else []),
        ],
    }
    return _child(pool, Kind.NETWORK_POLICY, {"spec": spec})


def _from_namespaces(names: Iterable[str | None]) -> list[Json]:
    return [{"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: name}}} for name in sorted(filter(None, names))]


def _tcp(port: int) -> Json:
    return {"protocol": "TCP", "port": port}


def build_deployment(pool: ServingPool, installation: Installation) -> Json:
    """Runs one pod for each engine. With Surge a new pod serves before an old one goes, so that the last engine is
    never taken away.
    """
    selector, engine, pod = selector_of(pool.metadata.name), pool.spec.engine, build_pod(pool, installation)
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    spec = {
        "replicas": pool.spec.replicas,
        "selector": {"matchLabels": selector},
        "strategy": surge if engine.rollout == "Surge" else {"type": "Recreate"},
        "progressDeadlineSeconds": engine.startup_seconds + SCHEDULING_SECONDS,
        "template": _template(selector, ENGINE_CONTAINER, pod),
    }
    return _child(pool, Kind.DEPLOYMENT, {"spec": spec}, {POD_HASH_ANNOTATION: content_hash(pod)})


def build_leader_worker_set(pool: ServingPool, installation: Installation) -> Json:
    """Runs a group of pods for each engine, which serves as a whole or not at all. Groups roll out as the pods of a
    Deployment would.
    """
    name, engine, pod = pool.metadata.name, pool.spec.engine, build_pod(pool, installation)
    surge, recreate = {"maxUnavailable": 0, "maxSurge": 1}, {"maxUnavailable": "100%", "maxSurge": 0}
    spec = {
        "replicas": pool.spec.replicas,
        "startupPolicy": "LeaderCreated",
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": surge if engine.rollout == "Surge" else recreate,
        },
        "leaderWorkerTemplate": {
            "size": engine.nodes,
            # vLLM cannot replace a lost part of an engine: the whole group restarts.
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": _template(selector_of(name), ENGINE_CONTAINER, pod),
            "workerTemplate": _template(workers_of(name), WORKER_CONTAINER, build_worker_pod(pool, installation)),
        },
    }
    return _child(pool, Kind.LEADER_WORKER_SET, {"spec": spec}, {POD_HASH_ANNOTATION: content_hash(pod)})


def _template(labels: Mapping[str, str], container: str, pod: Json) -> Json:
    metadata = {
        "labels": {**labels, MANAGED_BY_LABEL: MANAGER},
        "annotations": {"kubectl.kubernetes.io/default-container": container},
    }
    return {"metadata": metadata, "spec": pod}


def build_autoscaler(pool: ServingPool, autoscaling: AutoscalingSpec) -> Json:
    """Scales the pool's own `scale`, and the Deployment follows: each field has one writer."""
    metrics = [
        {"metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": each}}
        for metric, each in _signals(pool, autoscaling)
    ]
    spec = {
        "scaleTargetRef": _scale_of(pool),
        "minReplicas": autoscaling.minimum_replicas,
        "maxReplicas": autoscaling.maximum_replicas,
        "metrics": [{"type": "Pods", "pods": metric} for metric in metrics],
        "behavior": _scaling_behavior(autoscaling),
    }
    # Without this annotation KEDA refuses a ScaledObject for the same target while this autoscaler exists.
    return _child(pool, Kind.HORIZONTAL_POD_AUTOSCALER, {"spec": spec}, {"validations.keda.sh/hpa-ownership": "false"})


def build_scaled_object(pool: ServingPool, autoscaling: AutoscalingSpec) -> Json:
    """Does what the autoscaler does, by KEDA: it divides the sum from Prometheus by the number of engines."""
    own = f'namespace="{pool.metadata.namespace}",justitia_dev_pool="{pool.metadata.name}"'
    triggers = [
        {
            "type": "prometheus",
            "metricType": "AverageValue",
            "metadata": {
                "serverAddress": autoscaling.prometheus_address,
                "query": f"sum({metric}{{{own}}})",
                "threshold": each,
            },
        }
        for metric, each in _signals(pool, autoscaling)
    ]
    spec = {
        "scaleTargetRef": _scale_of(pool),
        "minReplicaCount": autoscaling.minimum_replicas,
        "maxReplicaCount": autoscaling.maximum_replicas,
        "triggers": triggers,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _scaling_behavior(autoscaling)}},
    }
    return _child(pool, Kind.SCALED_OBJECT, {"spec": spec})


def _signals(pool: ServingPool, autoscaling: AutoscalingSpec) -> list[tuple[str, str]]:
    """Metrics, each with the sum that one engine should have of it. The metric that asks for most engines decides."""
    signals = [(QUEUE_METRIC, str(autoscaling.queued_requests))]
    boost = pool.spec.scheduling.boost
    if boost is not None and boost.mode is BoostMode.SLO:
        signals.append((NEED_METRIC, "1"))
    return signals


def _scale_of(pool: ServingPool) -> Json:
    return {"apiVersion": API_VERSION, "kind": str(Kind.SERVING_POOL), "name": pool.metadata.name}


def _scaling_behavior(autoscaling: AutoscalingSpec) -> Json:
    return {"scaleDown": {"stabilizationWindowSeconds": autoscaling.stabilization_seconds}}


def build_route(pool: ServingPool, gateway: GatewaySpec) -> Json:
    """Routes requests for the pool's models, whatever their path, to its Service or InferencePool."""
    name, model = children_name(pool.metadata.name), pool.spec.model
    backend: Json = {"name": name, "port": SERVICE_PORT}
    if gateway.endpoint_picker is not None:
        backend = {"name": name, "group": "inference.networking.k8s.io", "kind": str(Kind.INFERENCE_POOL)}
    models = [model.served_name, *(adapter.name for adapter in model.adapters)]
    matches = [{"headers": [{"name": MODEL_HEADER, "value": each}]} for each in models]
    spec: Json = {
        "parentRefs": [parent.model_dump(by_alias=True, exclude_none=True) for parent in gateway.parent_refs],
        "rules": [
            {"matches": matches[first : first + MATCHES_OF_A_RULE], "backendRefs": [backend], "timeouts": UNLIMITED}
            for first in range(0, len(matches), MATCHES_OF_A_RULE)
        ],
    }
    hostnames = {"hostnames": list(gateway.hostnames)} if gateway.hostnames else {}
    return _child(pool, Kind.HTTP_ROUTE, {"spec": spec | hostnames})


def build_inference_pool(pool: ServingPool, picker: EndpointPicker) -> Json:
    """Its endpoints are the sidecars: there is no other way to an engine. The pool's own pickers are behind its
    Service.
    """
    name, port = (children_name(pool.metadata.name), PICKER_PORT) if picker.own else (picker.name, picker.port)
    spec = {
        "selector": {"matchLabels": selector_of(pool.metadata.name)},
        "targetPorts": [{"number": PUBLIC_PORT}],
        "endpointPickerRef": {"name": name, "port": {"number": port}},
    }
    return _child(pool, Kind.INFERENCE_POOL, {"spec": spec})


def build_inline_pool(application: LLMApplication, spec: Json) -> Json:
    """Builds the ServingPool of an application from its inline pool, as the user wrote it."""
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


def _child(pool: ServingPool, kind: Kind, content: Json, annotations: Mapping[str, str] | None = None) -> Json:
    metadata = pool.metadata
    return sealed(
        {
            "apiVersion": kind.api_version,
            "kind": str(kind),
            "metadata": {
                "name": children_name(metadata.name, kind),
                "namespace": metadata.namespace,
                "labels": selector_of(metadata.name) | {MANAGED_BY_LABEL: MANAGER},
                "ownerReferences": [owned_by_pool(pool)],
                **({"annotations": dict(annotations)} if annotations else {}),
            },
            **content,
        }
    )


def owned_by_pool(pool: ServingPool) -> Json:
    """The owner reference of objects that are deleted with the pool."""
    return _owner(Kind.SERVING_POOL, pool.metadata.name, pool.metadata.uid)


def _owner(kind: Kind, name: str, uid: str) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": str(kind),
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
