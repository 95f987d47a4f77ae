"""YAML files in local mode: what is taken, and that a mistake names file, document and field."""

from pathlib import Path

import pytest

from justitia_cli.local.converge import converge, read_keys
from justitia_cli.local.errors import LocalError
from justitia_cli.local.manifest import load_manifest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "llmapp.yaml"
PEPPER = "ab" * 32


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = EXAMPLE.read_text()
    assert old in text
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_the_example_becomes_one_pool_with_weights_applications_and_keys() -> None:
    documents = load_manifest([EXAMPLE])
    pool = converge(documents, None, PEPPER)
    assert {t.name: t.weight for t in pool.config.tenants} == {"research": 1.0, "batch": 2.0, "support": 4.0}
    assert len(pool.config.applications) == 5
    assert {entry.tenant for entry in pool.keys.keys} == {"research", "batch", "support"}
    assert set(read_keys(documents)) == {"research", "batch", "support"}


def test_the_generation_rises_with_a_change_and_stays_without_one(tmp_path: Path) -> None:
    first = converge(load_manifest([EXAMPLE]), None, PEPPER).config
    assert converge(load_manifest([EXAMPLE]), first, PEPPER).config == first
    other = converge(load_manifest([changed(tmp_path, 'weight: "2"', 'weight: "3"')]), first, PEPPER).config
    assert other.generation == first.generation + 1


def test_a_pool_behind_a_gateway_that_keda_scales_runs_without_either(tmp_path: Path) -> None:
    line = "  model: {uri:"
    asked = """  gateway: {parentRefs: [{name: inference}], endpointPicker: {name: picker, port: 9002}}
  autoscaling: {scaler: KEDA, prometheusAddress: "http://prometheus:9090", maximumReplicas: 2}
"""
    plain = converge(load_manifest([EXAMPLE]), None, PEPPER)
    pool = converge(load_manifest([changed(tmp_path, line, asked + line)]), None, PEPPER)
    assert (pool.deployment["spec"], pool.config) == (plain.deployment["spec"], plain.config)


def test_an_inline_pool_is_made_too(tmp_path: Path) -> None:
    documents = load_manifest([EXAMPLE])
    kept = [d for d in documents if d["metadata"]["name"] in {"research", "research-key"}]
    application = {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": "own", "namespace": "demo"},
        "spec": {
            "tenantRef": {"name": "research"},
            "pool": {
                "model": {"uri": "hf://a/b"},
                "scheduling": {"tiers": [{"name": "bronze", "weight": "1"}]},
            },
        },
    }
    assert converge([*kept, application], None, PEPPER).config.name == "own"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tier: bronze", "tear: bronze", r"document 5 \(Tenant research\): spec\.tear: Extra inputs"),
        ("policy: TieredJustitia", "policy: Fastest", r"document 8 \(ServingPool shared\): spec\.scheduling\.policy"),
        ("kind: Tenant", "kind: Tenants", r"document 5 \(Tenants research\): kind: local mode runs"),
        ("metadata: {name: research}", "metadata: {}", r"document 5 \(Tenant\): metadata\.name is missing"),
        ("tier: bronze", "tier: [", "not valid YAML.*line"),
    ],
    ids=["unknown field", "unknown policy", "unknown kind", "no name", "broken YAML"],
)
def test_a_mistake_names_file_document_and_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = changed(tmp_path, old, new)
    with pytest.raises(LocalError, match=f"{path.name}.*{message}"):
        load_manifest([path])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tier: bronze", "tier: platinum", "UnknownTier.*add the tier"),
        ("poolRef: {name: shared}", "poolRef: {name: lost}", "PoolNotFound.*does not exist"),
        ("{name: research-key, namespace", "{name: other-key, namespace", "SecretNotFound.*create it"),
    ],
)
def test_what_a_cluster_would_show_as_a_condition_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    documents = load_manifest([changed(tmp_path, old, new)])
    with pytest.raises(LocalError, match=message):
        converge(documents, None, PEPPER)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"none\.yaml: No such file"):
        load_manifest([tmp_path / "none.yaml"])
