"""Which salt a tenant's requests get, and where it stands in the body."""

import pytest

from justitia_sidecar.identity.salt import cache_salt, salted
from justitia_vocabulary.units import TenantId

LONGEST = "a" * 253
"""The longest name that Kubernetes takes."""


def test_a_tenant_shares_with_itself_alone() -> None:
    assert cache_salt(TenantId("gold"), None) == cache_salt(TenantId("gold"), None)
    assert cache_salt(TenantId("gold"), None) != cache_salt(TenantId("silver"), None)


def test_tenants_of_one_group_share() -> None:
    assert cache_salt(TenantId("gold"), "metals") == cache_salt(TenantId("silver"), "metals")
    assert cache_salt(TenantId("gold"), "metals") != cache_salt(TenantId("gold"), "others")


@pytest.mark.parametrize("name", ["metals", "group/metals"])
def test_a_tenant_named_like_a_group_is_not_of_it(name: str) -> None:
    assert cache_salt(TenantId(name), None) != cache_salt(TenantId("gold"), "metals")


@pytest.mark.parametrize("group", [None, "metals", "a" * 63])
@pytest.mark.parametrize("tenant", ["gold", LONGEST, LONGEST[:-1] + "b"])
def test_a_salt_is_one_that_vllm_takes(tenant: str, group: str | None) -> None:
    salt = cache_salt(TenantId(tenant), group)
    assert 0 < len(salt) <= 128
    assert not set(salt) & set("@/\\\0")


def test_long_names_that_differ_at_their_end_have_different_salts() -> None:
    assert cache_salt(TenantId(LONGEST), None) != cache_salt(TenantId(LONGEST[:-1] + "b"), None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m"}', b'{"model":"m","cache_salt":"5a17"}'),
        (b'{ "model" : "m" }\r\n\t ', b'{ "model" : "m" ,"cache_salt":"5a17"}\r\n\t '),
        (b'{"model":"m","stop":"}"}', b'{"model":"m","stop":"}","cache_salt":"5a17"}'),
        (b'{"model":"m","o":{"a":{}}}', b'{"model":"m","o":{"a":{}},"cache_salt":"5a17"}'),
        (b'{"cache_salt":"mine","model":"m"}', b'{"cache_salt":"mine","model":"m","cache_salt":"5a17"}'),
    ],
    ids=["compact", "white space", "a brace in a string", "objects at the end", "the client's salt"],
)
def test_ours_is_the_last_member_and_nothing_else_changes(body: bytes, expected: bytes) -> None:
    assert salted(body, "5a17") == expected
