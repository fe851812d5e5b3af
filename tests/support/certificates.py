"""Certificates for the tests, made by the `openssl` commands that docs/security.md tells an operator to use."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

EXTENSIONS = "basicConstraints=CA:FALSE\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A certificate and its key, in PEM files."""

    certificate: Path
    key: Path


class Authority:
    """An authority of its own in a folder; `ca` is what those who trust it are given."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._name = name
        self.ca, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        subject = ["-subj", f"/CN=triggerlog {name}", "-days", "2", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        _openssl("req", "-x509", *_new_key(self._key), *subject, "-out", self.ca)

    def certificate(self, name: str, *addresses: str, client: bool = False) -> Certificate:
        """Sign a certificate for addresses such as `IP:127.0.0.1` or `DNS:localhost`."""
        made = Certificate(certificate=self._folder / f"{name}.crt", key=self._folder / f"{name}.key")
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        use = "clientAuth" if client else "serverAuth"
        names = f"subjectAltName={','.join(addresses)}\n" if addresses else ""
        extensions.write_text(f"{names}{EXTENSIONS}extendedKeyUsage={use}\n")
        _openssl("req", *_new_key(made.key), "-subj", f"/CN={name}", "-out", request)
        signing = ["-CA", self.ca, "-CAkey", self._key, "-CAcreateserial", "-days", "2", "-extfile", extensions]
        _openssl("x509", "-req", "-in", request, *signing, "-out", made.certificate)
        return made


def _new_key(path: Path) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
