"""The webhook's own certificate authority and certificate, and when which of them is made anew.

A value in, a value out: nothing here reads a clock or the cluster. An authority is published (in
the webhook configurations) before anything is signed by it, and stays published until every
replica has had time to load what its successor signed, so no handshake fails on the way.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = 86_400.0
_CLOCK_SKEW = timedelta(minutes=5)
"""Certificates begin this much earlier, for API servers whose clock is behind."""


@dataclass(frozen=True)
class Lifetimes:
    """How long an authority and a certificate last.

    Each is made anew when `renew_share` of its life is left. `settle_seconds` is how long every
    replica and API server needs to learn of what was stored.
    """

    authority_seconds: float = 5 * 365 * _DAY
    certificate_seconds: float = 90 * _DAY
    renew_share: float = 1 / 3
    settle_seconds: float = 600.0


@dataclass(frozen=True)
class Held:
    """What the Secret holds, as PEM: authorities (oldest first), the newest one's key, the rest."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    certificate: bytes
    key: bytes

    @property
    def bundle(self) -> bytes:
        """Every authority, as the webhook configurations hold them."""
        return b"".join(self.authorities)

    @property
    def chain(self) -> bytes:
        """Certificate and key, as a TLS context loads them."""
        return self.certificate + self.key

    @property
    def expires(self) -> float:
        """Unix seconds at which the certificate ends."""
        return expiry(self.certificate)


class Unreadable(Exception):
    """What is held is no set of certificates; it is made anew."""


def first(names: Sequence[str], now: float, lifetimes: Lifetimes) -> Held:
    """Make an authority and a certificate for names and addresses."""
    authority, authority_key = _authority(now, lifetimes)
    certificate, key = _signed(authority, authority_key, names, now, lifetimes)
    return Held((authority,), authority_key, certificate, key)


def renewed(
    held: Held, names: Sequence[str], now: float, lifetimes: Lifetimes, *, is_published: bool
) -> Held:
    """Return what is to be held now; the same value where nothing is to be done.

    Args:
        held: What is held.
        names: The names and addresses that the certificate must have.
        now: Unix seconds.
        lifetimes: How long things last.
        is_published: Whether the webhook configurations have all of `held.authorities`.

    Raises:
        Unreadable: `held` is broken.
    """
    try:
        return _renewed(held, names, now, lifetimes, is_published)
    except ValueError as error:
        raise Unreadable(str(error)) from error


def _renewed(
    held: Held, names: Sequence[str], now: float, lifetimes: Lifetimes, is_published: bool
) -> Held:
    newest = _read(held.authorities[-1])
    if _is_over(newest, now):
        return first(names, now, lifetimes)
    if _is_due(newest, now, lifetimes):
        authority, authority_key = _authority(now, lifetimes)
        known = tuple(pem for pem in held.authorities if not _is_over(_read(pem), now))
        return replace(held, authorities=(*known, authority), authority_key=authority_key)
    certificate = _read(held.certificate)
    is_old = certificate.issuer != newest.subject or _is_due(certificate, now, lifetimes)
    is_usable = is_published and _age(newest, now) >= lifetimes.settle_seconds
    is_wrong = _is_over(certificate, now) or _names(certificate) != set(names)
    if is_wrong or (is_old and (is_usable or certificate.issuer == newest.subject)):
        pem, key = _signed(held.authorities[-1], held.authority_key, names, now, lifetimes)
        return replace(held, certificate=pem, key=key)
    is_settled = not is_old and _age(certificate, now) >= lifetimes.settle_seconds
    if len(held.authorities) > 1 and is_settled:
        return replace(held, authorities=held.authorities[-1:])
    return held


def expiry(certificate: bytes) -> float:
    """Return the Unix seconds at which a certificate ends, of a chain the first."""
    return _read(certificate).not_valid_after_utc.timestamp()


def _authority(now: float, lifetimes: Lifetimes) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = _name(f"tidegate-webhook-ca-{serial:x}"[:60])  # its own: an issuer is told by its name
    builder = (
        _builder(name, name, now, lifetimes.authority_seconds)
        .serial_number(serial)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(builder.sign(key, hashes.SHA256())), _key_pem(key)


def _signed(
    authority: bytes, authority_key: bytes, names: Sequence[str], now: float, lifetimes: Lifetimes
) -> tuple[bytes, bytes]:
    issuer, key = _read(authority), ec.generate_private_key(ec.SECP256R1())
    signing = serialization.load_pem_private_key(authority_key, None)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is of another kind")
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    builder = (
        _builder(_name("tidegate-webhook"), issuer.subject, now, lifetimes.certificate_seconds)
        .serial_number(x509.random_serial_number())
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_general, names))), critical=False)
        .add_extension(identifier, critical=False)
    )
    return _pem(builder.sign(signing, hashes.SHA256())), _key_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, now: float, seconds: float
) -> x509.CertificateBuilder:
    begin = datetime.fromtimestamp(now, UTC).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .not_valid_before(begin - _CLOCK_SKEW)
        .not_valid_after(begin + timedelta(seconds=seconds))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _begin(certificate: x509.Certificate) -> float:
    """Return when a certificate was made."""
    return (certificate.not_valid_before_utc + _CLOCK_SKEW).timestamp()


def _age(certificate: x509.Certificate, now: float) -> float:
    return now - _begin(certificate)


def _is_over(certificate: x509.Certificate, now: float) -> bool:
    return now >= certificate.not_valid_after_utc.timestamp()


def _is_due(certificate: x509.Certificate, now: float, lifetimes: Lifetimes) -> bool:
    end = certificate.not_valid_after_utc.timestamp()
    return end - now <= lifetimes.renew_share * (end - _begin(certificate))


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return {*found.get_values_for_type(x509.DNSName), *addresses}


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _read(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
