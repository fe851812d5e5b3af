"""TLS of whatever the daemon, its page and its command line listen at, and of what they connect to.

What is wrong with a file is reported as the problem of the field or option that names it: OpenSSL's own words
("PEM lib", "key values mismatch") name neither.
"""

import logging
import ssl
from pathlib import Path

from schemas.checking.problems import ConfigError, Problem, wrong

CERTIFICATE = "tls_certificate"
KEY = "tls_key"
OTHER_NAME = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL."""


log = logging.getLogger(__name__)


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
        ConfigError: a file cannot be used; the problem names the field and the fix.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    own_certificate(context, certificate, key, names=(f"{field}.{CERTIFICATE}", f"{field}.{KEY}"))
    if client_ca is not None:
        _trust(context, client_ca, f"{field}.tls_client_ca")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Identity:
    """A listener's certificate and key, which may be renewed while it listens.

    Raises:
        ConfigError: a file cannot be used; see `server_context`.
    """

    def __init__(self, certificate: Path, key: Path, field: str) -> None:
        self._files = (certificate, key)
        self._names = (f"{field}.{CERTIFICATE}", f"{field}.{KEY}")
        self._written = self._when()
        self.context = server_context(certificate, key, field)

    def renew(self) -> bool:
        """Load the files again if they were written since; connections that stand are left alone.

        Returns whether they were loaded. Files that cannot be used are logged, and the certificate stays what it was.
        """
        written = self._when()
        if written == self._written:
            return False
        self._written = written
        try:
            # Into a context of its own first: half of a new pair must not spoil the one in use.
            own_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *self._files, names=self._names)
            own_certificate(self.context, *self._files, names=self._names)
        except ConfigError as error:
            log.warning("the renewed certificate is not used: %s", error)
            return False
        log.info("loaded the certificate %s anew", self._files[0])
        return True

    def _when(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in self._files)


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


def pinned_context(certificate: Path, field: str) -> ssl.SSLContext:
    """TLS towards a listener of this machine whose own certificate is at hand: that one is trusted, whatever it names.

    Raises:
        ConfigError: the file cannot be used.
    """
    context = client_context(certificate, field)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def why_untrusted(error: BaseException | None) -> str | None:
    """Say why a connection with TLS failed and what fixes it; None when it failed of something else."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        what = error.verify_message.rstrip(".")
        if error.verify_code in OTHER_NAME:
            return f"its certificate is made for another name ({what}); use the name that it is made for"
        return f"its certificate is not trusted ({what}); name the authority that signed it"
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "it does not speak TLS; ask without"
    return f"TLS fails ({_words(error)}); see that both ends speak TLS 1.2 or newer"


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
        fix = "take it off (openssl pkey -in KEY -out NEW), and let nobody but the daemon read the file"
        raise ConfigError([wrong(f"{key} has a passphrase", fix, names[1])]) from None
    except ssl.SSLError as error:
        raise ConfigError([_unusable(certificate, key, names, error)]) from None


def _nobody_to_ask() -> str:
    raise _Encrypted


def _unusable(certificate: Path, key: Path, names: tuple[str, str], error: ssl.SSLError) -> Problem:
    if error.reason == "KEY_VALUES_MISMATCH":
        fix = f"give the key that {certificate} was made with (its own certificate comes first in the file)"
        return wrong(f"{key} is not the key of {certificate}", fix, names[1])
    if b"PRIVATE KEY-----" not in key.read_bytes():
        return wrong(
            f"{key} has no private key in PEM", "give the file that begins -----BEGIN PRIVATE KEY-----", names[1]
        )
    if b"-----BEGIN CERTIFICATE-----" not in certificate.read_bytes():
        fix = "give the file that begins -----BEGIN CERTIFICATE-----"
        return wrong(f"{certificate} has no certificate in PEM", fix, names[0])
    return wrong(
        f"{certificate} and {key} cannot be used ({_words(error)})",
        "see docs/security.md for how to make them",
        names[0],
    )


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _trust(context: ssl.SSLContext, ca: Path, name: str) -> None:
    _readable(ca, name)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError:
        fix = "give the authority's certificate, the file that begins -----BEGIN CERTIFICATE-----"
        raise ConfigError([wrong(f"{ca} has no certificate in PEM", fix, name)]) from None


def _readable(path: Path, name: str) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    raise ConfigError([wrong(f"{path} cannot be read ({reason})", "give a file that the daemon may read", name)])
