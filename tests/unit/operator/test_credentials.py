"""What protects control ports."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from justitia_operator.credentials import PERIOD, make_credentials, period_at, server_name
from support.resources import PEPPER

NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
UIDS = st.uuids().map(str)
MOMENTS = st.integers(0, 10_000).map(lambda hours: NOW + timedelta(hours=hours))


def test_the_same_credentials_are_made_again_and_again() -> None:
    first = make_credentials(PEPPER, "a", 7)
    make_credentials.cache_clear()
    assert make_credentials(PEPPER, "a", 7) == first


@pytest.mark.parametrize(("pepper", "uid", "period"), [("ab" * 32, "a", 7), (PEPPER, "b", 7), (PEPPER, "a", 8)])
def test_installations_pools_and_periods_have_nothing_in_common(pepper: str, uid: str, period: int) -> None:
    ours, other = make_credentials(PEPPER, "a", 7), make_credentials(pepper, uid, period)
    assert ours.certificate != other.certificate
    assert ours.private_key != other.private_key
    assert ours.token != other.token


def test_secrets_are_not_shown() -> None:
    found = make_credentials(PEPPER, "a", 7)
    assert found.token not in repr(found)
    assert "PRIVATE" not in repr(found)


@given(UIDS, MOMENTS)
def test_a_certificate_is_valid_in_its_period_and_the_next_for_its_pool(uid: str, now: datetime) -> None:
    certificate = x509.load_pem_x509_certificate(
        make_credentials(PEPPER, uid, period_at(uid, now)).certificate.encode()
    )
    assert certificate.not_valid_before_utc < now < now + PERIOD < certificate.not_valid_after_utc
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [server_name(uid)]


@given(UIDS, MOMENTS)
def test_a_period_is_followed_by_the_next(uid: str, now: datetime) -> None:
    assert period_at(uid, now + PERIOD) == period_at(uid, now) + 1


def test_pools_do_not_all_change_at_once() -> None:
    changed = [period_at(str(i), NOW) != period_at(str(i), NOW + timedelta(days=3)) for i in range(200)]
    assert 5 < sum(changed) < 50
