"""Credentials of a pool's pods, derived and not stored: a certificate and a token for the control port, and a
certificate that the pool's sidecars show each other.

Everything follows from the installation's root, the pool and the period, so each reconcile derives the same, and there
is no state to lose. The root stays in the operator's namespace. What is derived for one pool lies in that pool's
namespace, and reveals nothing of the root or of another pool. A new period begins every `PERIOD`, at another moment for
each pool. The operator accepts the previous period too, because pods may not have the new one yet.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from justitia_api.wire import PEER_NAME

PERIOD = timedelta(days=30)
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_SKEW = timedelta(days=1)
"""How far the clocks of nodes may differ."""


@dataclass(frozen=True)
class Credentials:
    """PEM files, and the token that the operator presents. The certificate signs itself: the operator trusts this one
    certificate.
    """

    certificate: str
    private_key: str = field(repr=False)
    token: str = field(repr=False)


@dataclass(frozen=True)
class PeerCredentials:
    """PEM files. A sidecar shows `certificate`, and takes those in `accepted`: each signs itself."""

    certificate: str
    private_key: str = field(repr=False)
    accepted: str


def server_name(uid: str) -> str:
    """The name in a pool's certificate. It is never resolved."""
    return f"{uid}.control.justitia.dev"


def period_at(uid: str, now: datetime) -> int:
    """The number of the pool's period."""
    offset = timedelta(seconds=int(sha256(uid.encode()).hexdigest(), 16) % int(PERIOD.total_seconds()))
    return (now.astimezone(UTC) - _EPOCH + offset) // PERIOD


def pool_pepper(root: str, uid: str) -> str:
    """The key that API keys are digested with in a pool (by its uid), hex. `root` is hex."""
    return derive(root, f"justitia pepper/{uid}").hex()


def derive(root: str, info: str) -> bytes:
    """32 bytes for one purpose, which `info` names. `root` is hex."""
    hkdf = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info.encode())
    return hkdf.derive(bytes.fromhex(root))


@lru_cache(maxsize=4096)
def make_credentials(root: str, uid: str, period: int) -> Credentials:
    """Derives the credentials of a pool's control port (by its uid) in a period. `root` is hex."""
    pair = _pair(root, "control", uid, period, server_name(uid), [ExtendedKeyUsageOID.SERVER_AUTH])
    token = _of_period(root, "control token", uid, period).hex()
    return Credentials(pair.certificate, pair.private_key, token)


@lru_cache(maxsize=4096)
def make_peer_credentials(root: str, uid: str, period: int) -> PeerCredentials:
    """Derives what the sidecars of a pool (by its uid) show each other in a period. `root` is hex. Pods may not have
    the newest yet, or have it before others: those of the periods before and after are accepted.
    """
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    before, now, after = (
        _pair(root, "peer", uid, each, PEER_NAME, purposes) for each in (period - 1, period, period + 1)
    )
    return PeerCredentials(now.certificate, now.private_key, before.certificate + now.certificate + after.certificate)


class PodCredentials(NamedTuple):
    """All that a pool's pods have."""

    control: Credentials
    peers: PeerCredentials


def make_pod_credentials(root: str, uid: str, period: int) -> PodCredentials:
    """Derives the credentials of a pool's pods (by its uid) in a period. `root` is hex."""
    return PodCredentials(make_credentials(root, uid, period), make_peer_credentials(root, uid, period))


class _Pair(NamedTuple):
    certificate: str
    private_key: str


def _of_period(root: str, what: str, uid: str, period: int) -> bytes:
    return derive(root, f"justitia {what}/{uid}/{period}")


def _pair(  # noqa: PLR0917
    root: str, what: str, uid: str, period: int, name: str, purposes: list[ObjectIdentifier]
) -> _Pair:
    """A key for one purpose, `what`, and a certificate for `name` that it signs itself."""
    key = Ed25519PrivateKey.from_private_bytes(_of_period(root, f"{what} key", uid, period))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"justitia {what} {period}")])
    begin = _EPOCH + period * PERIOD - PERIOD
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(_of_period(root, f"{what} serial", uid, period)[:16]) >> 1 | 1)
        .not_valid_before(begin - _SKEW)
        .not_valid_after(begin + 4 * PERIOD)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .sign(key, None)
    )
    plain = serialization.NoEncryption()
    return _Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode(),
    )
