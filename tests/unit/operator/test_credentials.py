"""What protects control ports."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.wire import PEER_CERTIFICATE_FILE, PEER_KEY_FILE, PEER_NAME, PEERS_FILE
from justitia_operator.build.credentials import (
    PERIOD,
    PeerCredentials,
    make_credentials,
    make_peer_credentials,
    period_at,
    pool_pepper,
    server_name,
)
from justitia_sidecar.pool.passing import PeerCredentials as SidecarCredentials
from support.resources import ROOT

NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
PRESENT = period_at("a", datetime.now(UTC))
"""Handshakes look at the clock."""
UIDS = st.uuids().map(str)
MOMENTS = st.integers(0, 10_000).map(lambda hours: NOW + timedelta(hours=hours))


def test_the_same_credentials_are_made_again_and_again() -> None:
    first = make_credentials(ROOT, "a", 7)
    make_credentials.cache_clear()
    assert make_credentials(ROOT, "a", 7) == first


@pytest.mark.parametrize(("root", "uid", "period"), [("ab" * 32, "a", 7), (ROOT, "b", 7), (ROOT, "a", 8)])
def test_installations_pools_and_periods_have_nothing_in_common(root: str, uid: str, period: int) -> None:
    ours, other = make_credentials(ROOT, "a", 7), make_credentials(root, uid, period)
    assert ours.certificate != other.certificate
    assert ours.private_key != other.private_key
    assert ours.token != other.token


def test_secrets_are_not_shown() -> None:
    found = make_credentials(ROOT, "a", 7)
    assert found.token not in repr(found)
    assert "PRIVATE" not in repr(found)


@given(UIDS, MOMENTS)
def test_a_certificate_is_valid_in_its_period_and_the_next_for_its_pool(uid: str, now: datetime) -> None:
    certificate = x509.load_pem_x509_certificate(make_credentials(ROOT, uid, period_at(uid, now)).certificate.encode())
    assert certificate.not_valid_before_utc < now < now + PERIOD < certificate.not_valid_after_utc
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [server_name(uid)]


@given(UIDS, MOMENTS)
def test_a_period_is_followed_by_the_next(uid: str, now: datetime) -> None:
    assert period_at(uid, now + PERIOD) == period_at(uid, now) + 1


def test_pools_do_not_all_change_at_once() -> None:
    changed = [period_at(str(i), NOW) != period_at(str(i), NOW + timedelta(days=3)) for i in range(200)]
    assert 5 < sum(changed) < 50


def test_what_lies_in_a_pools_secret_derives_nothing_of_another_pool() -> None:
    """A namespace's editor reads the own pool's Secret, and the victim's uid off its certificate."""
    victim = make_credentials(ROOT, "victim", 7)
    own = make_credentials(ROOT, "own", 7)
    for known in (pool_pepper(ROOT, "own"), own.token):
        guessed = make_credentials(known, "victim", 7)
        assert guessed.token != victim.token
        assert guessed.certificate != victim.certificate
        assert pool_pepper(known, "victim") != pool_pepper(ROOT, "victim")


def test_secrets_between_sidecars_are_not_shown() -> None:
    assert "PRIVATE" not in repr(make_peer_credentials(ROOT, "a", 7))


def test_sidecars_of_a_pool_take_each_other_while_some_have_the_next_certificate_and_some_the_one_before(
    tmp_path: Path,
) -> None:
    earlier, before, now, after = (peers_of(tmp_path, "a", PRESENT + past) for past in (-2, -1, 0, 1))
    for one, other in ((earlier, before), (before, now), (now, before), (now, now), (now, after), (after, now)):
        assert connects(one, other)
    assert not connects(earlier, now)
    assert not connects(now, earlier)


def test_sidecars_of_another_pool_are_not_taken_nor_take_ours(tmp_path: Path) -> None:
    ours, theirs = peers_of(tmp_path, "a", PRESENT), peers_of(tmp_path, "b", PRESENT)
    assert not connects(ours, theirs)
    assert not connects(theirs, ours)


def peers_of(folder: Path, uid: str, period: int) -> SidecarCredentials:
    made: PeerCredentials = make_peer_credentials(ROOT, uid, period)
    here = folder / f"{uid}-{period}"
    here.mkdir()
    (here / PEER_CERTIFICATE_FILE).write_text(made.certificate)
    (here / PEER_KEY_FILE).write_text(made.private_key)
    (here / PEERS_FILE).write_text(made.accepted)
    return SidecarCredentials(here)


def connects(client: SidecarCredentials, server: SidecarCredentials) -> bool:
    """Whether the one, as a client, and the other, as a server, take each other, by the handshake alone."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.client.wrap_bio(to_client, to_server, server_hostname=PEER_NAME)
    other = server.server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for side in (one, other, one, other):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        other.write(b"taken")
        return one.read(5) == b"taken"
    except ssl.SSLError:
        return False


@given(UIDS, UIDS)
def test_pools_have_the_same_pepper_only_if_they_are_the_same(one: str, other: str) -> None:
    assert (pool_pepper(ROOT, one) == pool_pepper(ROOT, other)) is (one == other)
