"""Credentials of a pool's control port: a certificate and a token, derived and not stored.

Everything follows from the installation's root, the pool and the period, so each reconcile derives the same, and there
is no state to lose. The root stays in the operator's namespace. What is derived for one pool lies in that pool's
namespace, and reveals nothing of the root or of another pool. A new period begins every `PERIOD`, at another moment for
each pool. The operator accepts the previous period too, because pods may not have the new one yet.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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
    """Derives the credentials of a pool (by its uid) in a period. `root` is hex."""

    def of_period(what: str) -> bytes:
        return derive(root, f"justitia control {what}/{uid}/{period}")

    key = Ed25519PrivateKey.from_private_bytes(of_period("key"))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "justitia control")])
    begin = _EPOCH + period * PERIOD - PERIOD
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(of_period("serial")[:16]) >> 1 | 1)
        .not_valid_before(begin - _SKEW)
        .not_valid_after(begin + 4 * PERIOD)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(server_name(uid))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, None)
    )
    plain = serialization.NoEncryption()
    return Credentials(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode(),
        of_period("token").hex(),
    )
