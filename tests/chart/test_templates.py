"""What the chart becomes, without a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.helm import CHART, helm, rendered
from chart.switches import EVERYTHING

CRDS = Path(__file__).parents[2] / "crds"
KEEP = {"helm.sh/resource-policy": "keep"}


def definitions(*arguments: str) -> list[dict[str, Any]]:
    return [document for document in rendered(*arguments) if document["kind"] == "CustomResourceDefinition"]


def test_the_chart_passes_its_linter() -> None:
    answer = helm("lint", "--strict", str(CHART))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_charts_definitions_are_the_generated_ones() -> None:
    copies = {file.name: file.read_bytes() for file in (CHART / "files" / "crds").iterdir()}
    assert copies == {file.name: file.read_bytes() for file in CRDS.iterdir()}, "run `make crds`"


def test_definitions_are_rendered_as_they_are_apart_from_the_annotation() -> None:
    originals = {file.name: yaml.safe_load(file.read_text()) for file in CRDS.iterdir()}
    kept = definitions()
    assert all(definition["metadata"].pop("annotations") == KEEP for definition in kept)
    by_name = sorted(kept, key=lambda definition: str(definition["metadata"]["name"]))
    assert by_name == sorted(originals.values(), key=lambda definition: str(definition["metadata"]["name"]))


def test_definitions_can_be_left_out() -> None:
    assert definitions("--set", "crds.enabled=false") == []


def test_definitions_that_are_not_kept_have_no_policy() -> None:
    assert all("annotations" not in definition["metadata"] for definition in definitions("--set", "crds.keep=false"))


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("replicas=0", "replicas"),
        ("replica=2", "replica"),
        ("modelCache.nodePath=models", "modelCache/nodePath"),
        ("inlinePools.enabled=perhaps", "inlinePools/enabled"),
        ("inlinePools.images={a b}", "inlinePools/images/0"),
        ("inlinePools.fields={engine.image}", "inlinePools/fields/0"),
        ("rbac.aggregate=perhaps", "rbac/aggregate"),
        ("crds.keep=perhaps", "crds/keep"),
        ("resyncSeconds=1", "resyncSeconds"),
        ("logLevel=LOUD", "logLevel"),
        ("image.repository=", "image/repository"),
        ("metrics.dashboards=perhaps", "metrics/dashboards"),
        ("valkey.addresses={no-port},valkey.secretName=s", "valkey/addresses/0"),
        ("valkey.addresses={valkey:6379}", "valkey/secretName"),
        ("valkey.kind=Redis", "valkey/kind"),
        ("watchNamespaces=team-a", "watchNamespaces"),
        ("watchNamespaces={team_a}", "watchNamespaces/0"),
        ("watchNamespaces={team-a,team-a}", "watchNamespaces"),
    ],
)
def test_a_wrong_value_is_refused_and_named(setting: str, complaint: str) -> None:
    answer = helm("template", "justitia", str(CHART), "--set", setting)
    assert answer.returncode != 0
    assert complaint in answer.stderr.replace(".", "/")


def test_the_sidecar_is_the_operators_image_unless_given() -> None:
    assert (
        sidecar_image("image.repository=registry.example/justitia,image.tag=9.1.0") == "registry.example/justitia:9.1.0"
    )
    assert sidecar_image("sidecarImage=other:1") == "other:1"


def deployments(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = (document for document in documents if document["kind"] == "Deployment")
    return {document["metadata"]["name"]: document for document in found}


def settings(*arguments: str) -> dict[str, str]:
    """The operator's environment."""
    deployment = deployments(rendered(*arguments))["justitia"]
    entries = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return {entry["name"]: entry.get("value", "") for entry in entries}


def sidecar_image(given: str) -> str:
    return settings("--set", given)["JUSTITIA_SIDECAR_IMAGE"]


def test_what_the_installation_offers_is_the_operators_to_know() -> None:
    assert not {"JUSTITIA_NODE_CACHE_PATH", "JUSTITIA_METRICS_NAMESPACE"} & settings().keys()
    given = settings("--set", "modelCache.nodePath=/var/models,metrics.namespace=monitoring")
    assert given["JUSTITIA_NODE_CACHE_PATH"] == "/var/models"
    assert given["JUSTITIA_METRICS_NAMESPACE"] == "monitoring"


def test_the_charts_own_valkey_is_the_operators_to_know_and_holds_nothing() -> None:
    assert not [name for name in settings() if name.startswith("JUSTITIA_VALKEY")]
    given = settings("--set=valkey.enabled=true")
    assert given["JUSTITIA_VALKEY_ADDRESSES"] == "justitia-valkey.justitia-system.svc:6379"
    assert given["JUSTITIA_VALKEY_OWN"] == "true"
    made = deployments(rendered("--set=valkey.enabled=true,image.registry=mirror.example"))["justitia-valkey"]
    spec = made["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "mirror.example/valkey/valkey:9.1.2"
    assert [volume["name"] for volume in spec["volumes"]] == ["users"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_a_valkey_of_ones_own_is_told_to_the_operator_with_the_secret_of_its_login() -> None:
    own = "valkey.addresses={a:26379,b:26379},valkey.kind=Sentinel,valkey.primaryName=ours,valkey.secretName=login"
    given = settings("--set", own)
    assert given["JUSTITIA_VALKEY_ADDRESSES"] == "a:26379,b:26379"
    assert (given["JUSTITIA_VALKEY_KIND"], given["JUSTITIA_VALKEY_PRIMARY"]) == ("Sentinel", "ours")
    assert given["JUSTITIA_VALKEY_SECRET"] == "login"
    assert "JUSTITIA_VALKEY_OWN" not in given
    assert list(deployments(rendered("--set", own))) == ["justitia"]


def test_two_operators_are_kept_apart_and_not_evicted_together() -> None:
    documents = rendered("--set", "replicas=2")
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    (budget,) = (document for document in documents if document["kind"] == "PodDisruptionBudget")
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (deployment["spec"]["replicas"], budget["spec"]["maxUnavailable"]) == (2, 1)
    assert spread["labelSelector"]["matchLabels"] == budget["spec"]["selector"]["matchLabels"]
    assert not [document for document in rendered() if document["kind"] == "PodDisruptionBudget"]


def test_labels_and_annotations_are_on_every_object_but_the_definitions() -> None:
    documents = rendered(*EVERYTHING, "--set=metrics.dashboards=true", "--set=crds.enabled=false")
    pods = [each["spec"]["template"] | {"kind": "Pod"} for each in deployments(documents).values()]
    for document in (*documents, *pods):
        metadata = document["metadata"]
        assert metadata["labels"]["team"] == "platform", document["kind"]
        assert metadata["annotations"]["contact"] == "oncall", document["kind"]


def test_the_operators_metrics_are_for_its_namespace_and_that_of_the_metrics() -> None:
    def let_in(*arguments: str) -> list[str]:
        (policy,) = (document for document in rendered(*arguments) if document["kind"] == "NetworkPolicy")
        (rule,) = policy["spec"]["ingress"]
        return [str(selector) for peer in rule["from"] for selector in peer.values()]

    assert let_in() == ["{}"]
    monitoring = "{'matchLabels': {'kubernetes.io/metadata.name': 'monitoring'}}"
    assert let_in("--set=metrics.namespace=monitoring") == ["{}", monitoring]


def test_images_come_from_a_mirror_where_there_is_one() -> None:
    assert sidecar_image("image.registry=mirror.example/") == "mirror.example/justitia:0.1.0"


def people() -> dict[str, dict[str, Any]]:
    """The roles for people."""
    roles = [document for document in rendered() if document["kind"] == "ClusterRole"]
    return {role["metadata"]["name"]: role for role in roles if role["metadata"]["name"] != "justitia"}


def test_the_clusters_roles_include_pools_and_applications_and_nobody_tenants() -> None:
    roles = people()
    assert roles.keys() == {"justitia-view", "justitia-edit", "justitia-tenants"}
    aggregated = {
        name: {label.rpartition("-")[2] for label in role["metadata"]["labels"] if "aggregate-to" in label}
        for name, role in roles.items()
    }
    assert aggregated == {
        "justitia-view": {"view", "edit", "admin"},
        "justitia-edit": {"edit", "admin"},
        "justitia-tenants": set(),
    }
    for name in ("justitia-view", "justitia-edit"):
        assert not any("tenants" in rule["resources"] for rule in roles[name]["rules"])
    assert {verb for rule in roles["justitia-view"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_the_test_pod_asks_the_operators_service_and_is_not_behind_it() -> None:
    documents = rendered()
    (service,) = (d for d in documents if d["kind"] == "Service")
    (pod,) = (d for d in documents if d["kind"] == "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert service["spec"]["selector"].items() - pod["metadata"]["labels"].items()
    variable = service["metadata"]["name"].upper().replace("-", "_") + "_SERVICE_HOST"
    assert variable in pod["spec"]["containers"][0]["command"][2]
