"""The objects of a pool, one property at a time."""

from typing import Any

import pytest

from justitia_api.config import KeyTable, PoolConfig
from justitia_api.engine import EngineSpec, EnvironmentVariable
from justitia_api.pool import ServingPool
from justitia_operator.build.arguments import REFUSED_VARIABLES, refused_argument, refused_variable
from justitia_operator.build.builders import build_children
from justitia_operator.build.credentials import make_pod_credentials
from justitia_operator.build.pods import build_engine_container
from justitia_operator.build.seal import sealed
from justitia_operator.decide.compare import covers, needs_apply
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import Json, Kind
from justitia_sidecar.engine.client import KEEPALIVE_SECONDS
from support.resources import PEPPER, ROOT, pool

INSTALLATION = Installation("justitia-system", "sidecar:1", ROOT, "/var/models", "monitoring")
CREDENTIALS = make_pod_credentials(ROOT, "uid", 0)
CONFIG = PoolConfig(generation=1, namespace="apps", name="shared", model="m")


def children(**spec: Any) -> dict[Kind, Json]:
    parsed = ServingPool.model_validate(pool(**spec))
    return build_children(parsed, CONFIG, KeyTable(pepper=PEPPER), CREDENTIALS, INSTALLATION)


def pod(**spec: Any) -> Json:
    found: Json = children(**spec)[Kind.DEPLOYMENT]["spec"]["template"]["spec"]
    return found


IN_FRONT = {"enforcement": "Sidecar"}


def test_the_sidecar_starts_first_and_ends_last() -> None:
    (sidecar,) = pod(scheduling=IN_FRONT)["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicy"]) == ("sidecar", "Always")
    assert sidecar["command"] == ["python", "-m", "justitia_sidecar"]
    assert {e["name"]: e["value"] for e in sidecar["env"]} == {
        "JUSTITIA_CONFIG_FILE": "/etc/justitia/config/pool.json",
        "JUSTITIA_KEYS_FILE": "/etc/justitia/keys/keys.json",
        "JUSTITIA_ENGINE_URL": "http://127.0.0.1:8001",
        "JUSTITIA_HOST": "0.0.0.0",
        "JUSTITIA_PORT": "8000",
        "JUSTITIA_ADMIN_PORT": "8002",
        "JUSTITIA_CONTROL_PORT": "8003",
        "JUSTITIA_CONTROL_FOLDER": "/etc/justitia/keys",
        "JUSTITIA_HANG_FILE": "/tmp/engine-hangs",
        "JUSTITIA_HANG_SECONDS": "120",
    }


def test_the_engine_listens_on_loopback_and_takes_priorities() -> None:
    model, arguments = {"uri": "hf://acme/model", "name": "m"}, {"args": ["--max-model-len=9"]}
    (engine,) = pod(model=model, engine=arguments, scheduling=IN_FRONT)["containers"]
    assert engine["args"] == [
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--host=127.0.0.1",
        "--port=8001",
        "--model=acme/model",
        "--served-model-name=m",
        "--scheduling-policy=priority",
        "--enable-force-include-usage",
        "--allowed-media-domains",
        "none.invalid",
        "--max-model-len=9",
    ]


@pytest.mark.parametrize("scheduling", [{}, {"enforcement": "Engine"}], ids=["by default", "by name"])
def test_vllm_loads_our_scheduler_which_a_first_container_brings(scheduling: dict[str, str]) -> None:
    spec = pod(scheduling=scheduling)
    deliver, sidecar = spec["initContainers"]
    (engine,) = spec["containers"]
    mount = {"name": "plugin", "mountPath": "/plugin"}
    assert {"name": "plugin", "emptyDir": {}} in spec["volumes"]
    assert all(mount in container["volumeMounts"] for container in (deliver, sidecar, engine))
    assert deliver["command"] == ["python", "-m", "justitia_sidecar.deliver", "/plugin"]
    assert "restartPolicy" not in deliver
    assert deliver["image"] == sidecar["image"] != engine["image"]
    assert "--scheduler-cls=justitia_engine.scheduler.JustitiaScheduler" in engine["args"]
    assert "--scheduling-policy=priority" in engine["args"]
    values = [{e["name"]: e.get("value") for e in container["env"]} for container in (sidecar, engine)]
    assert values[0]["JUSTITIA_ENGINE_SOCKET"] == values[1]["JUSTITIA_SOCKET"] == "/plugin/engine.sock"
    assert values[1]["PYTHONPATH"] == "/plugin"


def test_vllm_keeps_connections_far_longer_than_the_sidecar_does() -> None:
    """Else a server that was too busy to read closes a connection on which the sidecar has just sent a request."""
    (engine,) = pod()["containers"]
    values = {each["name"]: each.get("value") for each in engine["env"]}
    assert float(values["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]) >= 50 * KEEPALIVE_SECONDS


def test_another_policy_or_other_bounds_of_gamma_leave_the_pods_as_they_are() -> None:
    bounds = {"minimumGamma": "0.5", "maximumGamma": "2"}
    found = [
        pod(scheduling={"enforcement": "Engine"} | scheduling)
        for scheduling in ({"policy": "VTC"}, {"policy": "UniBoost"}, {"policy": "UniBoost", "boost": bounds})
    ]
    assert found[0] == found[1] == found[2]


def test_a_model_from_a_file_is_a_path_and_named_by_it() -> None:
    (engine,) = pod(model={"uri": "file:///models/tiny"})["containers"]
    assert "--model=/models/tiny" in engine["args"]
    assert "--served-model-name=/models/tiny" in engine["args"]


def test_the_engine_gets_its_accelerators_as_quantities() -> None:
    resources = {"limits": {"nvidia.com/gpu": 2}, "requests": {"cpu": "500m"}}
    (engine,) = pod(engine={"resources": resources})["containers"]
    assert engine["resources"] == {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "500m"}}


def test_the_models_token_comes_from_its_secret() -> None:
    parsed = ServingPool.model_validate(pool(model={"uri": "hf://a/b", "tokenSecretRef": {"name": "hf"}}))
    container = build_engine_container(parsed)
    assert {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}} in container["env"]


def test_a_model_on_a_claim_or_in_an_image_is_mounted_for_reading() -> None:
    for uri, path, volume in (
        (
            "pvc://models/acme/tiny",
            "/mnt/model/acme/tiny",
            {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
        ),
        ("pvc://models", "/mnt/model", {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}}),
        ("oci://example.com/models/tiny:1", "/mnt/model", {"image": {"reference": "example.com/models/tiny:1"}}),
    ):
        spec = pod(model={"uri": uri, "name": "tiny"})
        (engine,) = spec["containers"]
        assert f"--model={path}" in engine["args"]
        assert {"name": "model", **volume} in spec["volumes"]
        assert {"name": "model", "mountPath": "/mnt/model", "readOnly": True} in engine["volumeMounts"]
    assert not [volume for volume in pod()["volumes"] if volume["name"] == "model"]


def test_adapters_are_further_models() -> None:
    adapters = [{"name": "sql", "uri": "hf://acme/sql-lora"}, {"name": "law", "uri": "file:///mnt/model/law"}]
    (engine,) = pod(model={"uri": "hf://acme/model", "adapters": adapters}, engine={"args": ["--max-loras=2"]})[
        "containers"
    ]
    first = engine["args"].index("--enable-lora")
    assert engine["args"][first:] == [
        "--enable-lora",
        "--lora-modules",
        "sql=acme/sql-lora",
        "law=/mnt/model/law",
        "--max-loras=2",
    ]


@pytest.mark.parametrize(
    ("cache", "volume"),
    [
        (None, {"emptyDir": {}}),
        ({"type": "PersistentVolumeClaim", "claimName": "hub"}, {"persistentVolumeClaim": {"claimName": "hub"}}),
        ({"type": "Node"}, {"hostPath": {"path": "/var/models", "type": "Directory"}}),
    ],
)
def test_weights_from_a_hub_are_kept_where_the_pool_says(cache: Json | None, volume: Json) -> None:
    spec = pod(engine={} if cache is None else {"modelCache": cache})
    assert {"name": "cache", **volume} in spec["volumes"]
    own = {"subPath": "apps"} if cache == {"type": "Node"} else {}
    assert {"name": "cache", "mountPath": "/cache", **own} in spec["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("domains", "allowed"), [([], ["none.invalid"]), (["a.example", "b.example"], ["a.example", "b.example"])]
)
def test_the_engine_fetches_media_from_the_domains_that_the_pool_names_alone(
    domains: list[str], allowed: list[str]
) -> None:
    (engine,) = pod(engine={"mediaDomains": domains, "args": ["--x=1"]}, scheduling=IN_FRONT)["containers"]
    begin = engine["args"].index("--allowed-media-domains") + 1
    assert engine["args"][begin:-1] == allowed
    assert {"name": "VLLM_MEDIA_URL_ALLOW_REDIRECTS", "value": "0"} in engine["env"]


def test_the_engine_gets_the_users_variables_and_shared_memory() -> None:
    env = [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "KEY", "secretRef": {"name": "s", "key": "k"}}]
    spec = pod(engine={"env": env, "sharedMemory": "8Gi"})
    assert spec["containers"][0]["env"][-2:] == [
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}} in spec["volumes"]


def test_a_rollout_without_spare_accelerators_takes_the_old_engines_first() -> None:
    spec = children(engine={"rollout": "Recreate", "startupSeconds": 120})[Kind.DEPLOYMENT]["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["progressDeadlineSeconds"] > 120
    probe = spec["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 120


def test_placement_is_passed_on() -> None:
    spread = {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    more = {"priorityClassName": "serving", "runtimeClassName": "nvidia", "imagePullSecrets": [{"name": "registry"}]}
    spec = pod(engine={"topologySpread": [spread], **more})
    assert more.items() <= spec.items()
    assert spec["topologySpreadConstraints"] == [
        spread
        | {
            "maxSkew": 1,
            "labelSelector": {
                "matchLabels": {"app.kubernetes.io/name": "justitia-pool", "justitia.dev/pool": "shared"}
            },
            "matchLabelKeys": ["pod-template-hash"],
        }
    ]


def test_what_is_not_said_about_placement_is_not_in_the_pod() -> None:
    said = {"nodeSelector", "tolerations", "topologySpreadConstraints", "priorityClassName", "runtimeClassName"}
    assert not (said | {"imagePullSecrets"}) & pod().keys()


def test_nodes_are_chosen_by_label_and_taint() -> None:
    spec = pod(engine={"nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]})
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"gpu": "a100"}, [{"key": "gpu", "operator": "Exists"}])


def test_pods_satisfy_the_restricted_security_level_and_hold_no_credentials() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_probes_ask_the_sidecar_because_the_engine_cannot_be_reached() -> None:
    spec = pod()
    (*_, sidecar), (engine,) = spec["initContainers"], spec["containers"]
    assert sidecar["startupProbe"]["httpGet"] == {"path": "/healthz", "port": 8002}
    assert sidecar["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 8002}
    assert engine["startupProbe"]["httpGet"] == {"path": "/readyz", "port": 8002}


def test_a_rollout_never_takes_the_last_engine_away() -> None:
    found = children(replicas=1)
    assert found[Kind.DEPLOYMENT]["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert found[Kind.POD_DISRUPTION_BUDGET]["spec"]["maxUnavailable"] == 1


def test_the_service_leads_to_the_scheduler_of_the_pools_pods() -> None:
    found = children()
    service, template = found[Kind.SERVICE]["spec"], found[Kind.DEPLOYMENT]["spec"]["template"]
    assert service["ports"] == [{"name": "http", "port": 80, "targetPort": 8000, "protocol": "TCP"}]
    assert service["selector"].items() <= template["metadata"]["labels"].items()


def test_each_port_is_for_those_who_need_it() -> None:
    def namespaces(rule: Json) -> list[str]:
        return [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in rule["from"]]

    found = children()
    (public, peer, control, admin) = found[Kind.NETWORK_POLICY]["spec"]["ingress"]
    assert public == {"ports": [{"protocol": "TCP", "port": 8000}]}
    assert peer["ports"] == [{"protocol": "TCP", "port": 8004}]
    assert peer["from"] == [{"podSelector": {"matchLabels": found[Kind.SERVICE]["spec"]["selector"]}}]
    assert control["ports"] == [{"protocol": "TCP", "port": 8003}]
    assert namespaces(control) == ["justitia-system"]
    assert admin["ports"] == [{"protocol": "TCP", "port": 8002}]
    assert namespaces(admin) == ["justitia-system", "monitoring"]


def test_sidecars_pass_on_only_where_engines_keep_the_order() -> None:
    inside, in_front = children(), children(scheduling=IN_FRONT)
    assert len(in_front[Kind.NETWORK_POLICY]["spec"]["ingress"]) == 3
    for found, passes_on in ((inside, True), (in_front, False)):
        *_, sidecar = found[Kind.DEPLOYMENT]["spec"]["template"]["spec"]["initContainers"]
        assert ("peer" in [port["name"] for port in sidecar["ports"]]) is passes_on
        assert ("JUSTITIA_PEER_FOLDER" in [variable["name"] for variable in sidecar["env"]]) is passes_on


@pytest.mark.parametrize(
    "argument",
    [
        "--model",
        "--model=other",
        "--served_model_name=other",
        "--host=0.0.0.0",
        "--port",
        "--por=1",
        "--scheduling-policy=fcfs",
        "--scheduling_policy",
        "--scheduler-cls=x.Y",
        "--no-enable-force-include-usage",
        "--api-key=x",
        "--uds=/tmp/x",
        "--config=file.yaml",
        "--root-path=/x",
        "--lora-modules",
        "--enable-lora",
        "--data-parallel-size=2",
        "--data_parallel_siz",
        "-dp=2",
        "-dp",
        "-dpl=2",
        "--disable-log-stats",
        "--disable_log_s",
        "--api-server-count=2",
        "--middleware=x.Y",
        "--grpc",
    ],
)
def test_an_argument_that_would_override_ours_is_refused(argument: str) -> None:
    message = refused_argument(EngineSpec(args=("--dtype=float32", argument)))
    assert message is not None
    assert "remove it" in message


@pytest.mark.parametrize(
    "argument", ["--max-model-len=8192", "--model-impl=auto", "-tp=2", "8192", "--", "--hf-config-path=/x", "--dtype"]
)
def test_other_arguments_are_the_users(argument: str) -> None:
    assert refused_argument(EngineSpec(args=("--dtype=float32", argument))) is None


@pytest.mark.parametrize("value", ["example.com", "more=hf://acme/lora"])
def test_a_value_without_an_option_is_refused_since_it_would_add_to_an_option_of_ours(value: str) -> None:
    message = refused_argument(EngineSpec(args=(value, "--max-model-len=1")))
    assert message is not None
    assert "begin with an option" in message
    assert refused_argument(EngineSpec(args=("--max-model-len", "1"))) is None


@pytest.mark.parametrize("name", REFUSED_VARIABLES)
def test_a_variable_that_does_what_a_refused_argument_does_is_refused(name: str) -> None:
    env = (EnvironmentVariable(name="HF_HUB_OFFLINE", value="1"), EnvironmentVariable(name=name, value="2"))
    message = refused_variable(EngineSpec(env=env))
    assert message is not None
    assert f"engine.env sets {name}" in message
    assert refused_variable(EngineSpec(env=env[:1])) is None


def test_an_object_with_defaults_and_additions_covers_what_was_applied() -> None:
    desired: Json = {"spec": {"containers": [{"name": "a", "image": "i"}], "ports": [{"port": 80}]}}
    observed = {
        "spec": {
            "containers": [{"name": "injected"}, {"name": "a", "image": "i", "pull": "Always"}],
            "ports": [{"port": 80, "nodePort": 3}],
            "x": 1,
        }
    }
    assert covers(observed, desired)
    assert not covers({"spec": {"containers": [{"name": "a", "image": "j"}], "ports": [{"port": 80}]}}, desired)
    assert not covers({"spec": {"containers": [], "ports": [{"port": 80}]}}, desired)


def test_an_object_is_applied_when_missing_changed_or_wanted_differently() -> None:
    job = {"kind": "Job", "metadata": {"name": "x"}}
    desired = sealed(job | {"spec": {"a": 1, "b": 2}})
    assert needs_apply(desired, None)
    assert not needs_apply(desired, desired | {"status": {}})
    assert needs_apply(desired, desired | {"spec": {"a": 1, "b": 3}})
    less = sealed(job | {"spec": {"a": 1}})
    assert covers(desired["spec"], less["spec"])
    assert needs_apply(less, desired)
