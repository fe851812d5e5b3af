"""TLS of whatever the daemon and its command line listen at, and of what they connect to.

What is wrong with a file is told as the problem of the field or option that names it: OpenSSL's own words
("PEM lib", "key values mismatch") name neither.
"""

import ssl
from pathlib import Path

from schemas.problems import ConfigError, Problem, wrong

CERTIFICATE = "tls_certificate"
KEY = "tls_key"


class _Encrypted(Exception):
    """The key wants a passphrase, and nobody is there to type one when a service starts."""


def server_context(certificate: Path, key: Path, field: str, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS 1.2 or newer for a listener.

    Args:
        certificate: PEM, the listener's own first and then what leads from it to the authority.
        key: PEM, its private key, without a passphrase.
        field: path of the section that has `tls_certificate` and `tls_key`, such as `api` or `sources[0]`.
        client_ca: PEM of the authorities of the clients (the section's `tls_client_ca`); with it only those get in who
            show a certificate of theirs.

    Raises:
        ConfigError: a file cannot be used; the problem names the field and the mend.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    own_certificate(context, certificate, key, names=(f"{field}.{CERTIFICATE}", f"{field}.{KEY}"))
    if client_ca is not None:
        _trust(context, client_ca, f"{field}.tls_client_ca")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(ca: Path | None, field: str = "--ca") -> ssl.SSLContext:
    """TLS 1.2 or newer towards a listener, whose certificate and host name are checked.

    Args:
        ca: PEM of the authorities to trust; None trusts those that the system does.
        field: the option that names `ca`.

    Raises:
        ConfigError: the file cannot be used.
    """
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        _trust(context, ca, field)
    return context


def own_certificate(context: ssl.SSLContext, certificate: Path, key: Path, *, names: tuple[str, str]) -> None:
    """Give a context the certificate to show.

    names: the fields or options of the certificate and of the key.

    Raises:
        ConfigError: a file cannot be used, or the two do not belong together.
    """
    for path, name in zip((certificate, key), names, strict=True):
        _readable(path, name)
    try:
        context.load_cert_chain(certificate, key, password=_nobody_to_ask)
    except _Encrypted:
        mend = "take it off (openssl pkey -in KEY -out NEW), and let nobody but the daemon read the file"
        raise ConfigError([wrong(f"{key} has a passphrase", mend, names[1])]) from None
    except ssl.SSLError as error:
        raise ConfigError([_unusable(certificate, key, names, error)]) from None


def _nobody_to_ask() -> str:
    raise _Encrypted


def _unusable(certificate: Path, key: Path, names: tuple[str, str], error: ssl.SSLError) -> Problem:
    if error.reason == "KEY_VALUES_MISMATCH":
        mend = f"give the key that {certificate} was made with (its own certificate comes first in the file)"
        return wrong(f"{key} is not the key of {certificate}", mend, names[1])
    if b"PRIVATE KEY-----" not in key.read_bytes():
        return wrong(
            f"{key} has no private key in PEM", "give the file that begins -----BEGIN PRIVATE KEY-----", names[1]
        )
    if b"-----BEGIN CERTIFICATE-----" not in certificate.read_bytes():
        mend = "give the file that begins -----BEGIN CERTIFICATE-----"
        return wrong(f"{certificate} has no certificate in PEM", mend, names[0])
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return wrong(
        f"{certificate} and {key} cannot be used ({reason})", "see docs/security.md for how to make them", names[0]
    )


def _trust(context: ssl.SSLContext, ca: Path, name: str) -> None:
    _readable(ca, name)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError:
        mend = "give the authority's certificate, the file that begins -----BEGIN CERTIFICATE-----"
        raise ConfigError([wrong(f"{ca} has no certificate in PEM", mend, name)]) from None


def _readable(path: Path, name: str) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    raise ConfigError([wrong(f"{path} cannot be read ({reason})", "give a file that the daemon may read", name)])
