import pytest

from justitia_api.config import ApplicationConfig, KeyEntry, KeyTable, PoolConfig, key_digest
from justitia_api.wire import Refusal
from justitia_sidecar.identity.authentication import KeyRing
from justitia_sidecar.identity.recognition import Directory, ends_run, run_id
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import TenantId

PEPPER = "0f" * 16
GOLD, SILVER = TenantId("gold"), TenantId("silver")


def directory(*names: str, tenant: str = "gold") -> Directory:
    applications = [ApplicationConfig(namespace="ns", name=name, tenant=tenant) for name in names]
    return Directory(PoolConfig(generation=1, namespace="ns", name="p", model="m", applications=tuple(applications)))


def ring() -> KeyRing:
    entry = KeyEntry(digest=key_digest(PEPPER, b"sk-0123456789abcdef"), tenant="gold")
    return KeyRing(KeyTable(pepper=PEPPER, keys=(entry,)))


@pytest.mark.parametrize("header", [b"Bearer sk-0123456789abcdef", b"bearer sk-0123456789abcdef "])
def test_a_known_key_gives_its_tenant(header: bytes) -> None:
    assert ring().tenant(header) == GOLD


@pytest.mark.parametrize("header", [None, b"", b"Bearer", b"Bearer ", b"Basic sk-0123456789abcdef", b"Bearer sk-x"])
def test_anything_else_is_refused_without_repeating_the_key(header: bytes | None) -> None:
    with pytest.raises(RefusalError) as refused:
        ring().tenant(header)
    assert refused.value.refusal is Refusal.INVALID_API_KEY
    assert "sk-" not in refused.value.message


def test_the_path_beats_the_header() -> None:
    found = directory("a", "b").application(GOLD, "ns/a", {b"x-justitia-application": b"ns/b"})
    assert found.id == "ns/a"


def test_the_header_names_the_application() -> None:
    assert directory("a", "b").application(GOLD, None, {b"x-justitia-application": b"ns/b"}).name == "b"


def test_the_only_application_needs_no_name() -> None:
    assert directory("a").application(GOLD, None, {}).name == "a"


def test_several_applications_need_one() -> None:
    with pytest.raises(RefusalError, match="ns/a, ns/b") as refused:
        directory("a", "b").application(GOLD, None, {})
    assert refused.value.refusal is Refusal.AMBIGUOUS_APPLICATION


def test_another_tenants_application_is_unknown_and_not_listed() -> None:
    with pytest.raises(RefusalError) as refused:
        directory("secret").application(SILVER, "ns/secret", {})
    assert refused.value.refusal is Refusal.UNKNOWN_APPLICATION
    assert "to one of" not in refused.value.message


TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({b"x-justitia-run": b"r", b"x-gateway-inference-fairness-id": b"g"}, "b", "r"),
        ({b"x-llm-d-inference-fairness-id": b"l"}, "b", "l"),
        ({b"x-gateway-inference-fairness-id": b"g"}, None, "g"),
        ({b"traceparent": TRACE}, "b", "b"),
        ({b"traceparent": TRACE}, None, "0af7651916cd43dd8448eb211c80319c"),
        ({b"traceparent": b"nonsense"}, None, None),
        ({}, None, None),
    ],
)
def test_where_a_run_id_is_found(headers: dict[bytes, bytes], body: str | None, expected: str | None) -> None:
    assert run_id(headers, body) == expected


def test_a_run_id_is_bounded() -> None:
    with pytest.raises(RefusalError):
        run_id({b"x-justitia-run": b"x" * 257}, None)


def test_a_run_ends_by_header() -> None:
    assert ends_run({b"x-justitia-run-end": b"True"})
    assert not ends_run({b"x-justitia-run-end": b"no"})
