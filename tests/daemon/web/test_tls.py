"""daemon.web.tls: contexts from real files, and what is said of files that will not do."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from daemon.web.tls import client_context, own_certificate, server_context
from schemas.config import ConfigError
from tests.support.certificates import Authority, Certificate


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def node(authority: Authority) -> Certificate:
    return authority.certificate("node", "IP:127.0.0.1")


async def spoken(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "127.0.0.1") -> str:
    """Let the two speak; the TLS version they speak, once the listener has heard the other."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=host)
        writer.write(b"hello\n")
        said = await reader.readline()
        version = writer.get_extra_info("ssl_object").version()
        writer.close()
    assert said == b"hello\n"
    return str(version)


async def test_both_ends_speak_what_is_current(authority: Authority, node: Certificate) -> None:
    server = server_context(node.certificate, node.key, "api")
    assert await spoken(server, client_context(authority.ca)) == "TLSv1.3"
    assert server.minimum_version == client_context(None).minimum_version == ssl.TLSVersion.TLSv1_2


async def test_another_authority_and_another_name_are_not_trusted(
    authority: Authority, node: Certificate, tmp_path: Path
) -> None:
    server = server_context(node.certificate, node.key, "api")
    stranger = Authority(tmp_path, "stranger")
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        await spoken(server, client_context(stranger.ca))
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        await spoken(server, client_context(authority.ca), "elsewhere")


async def test_clients_show_a_certificate_where_it_is_asked_for(authority: Authority, node: Certificate) -> None:
    server = server_context(node.certificate, node.key, "sources[0]", client_ca=authority.ca)
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        await spoken(server, client_context(authority.ca))
    known = client_context(authority.ca)
    sender = authority.certificate("sender", client=True)
    own_certificate(known, sender.certificate, sender.key, names=("--certificate", "--key"))
    assert await spoken(server, known) == "TLSv1.3"


def refused(certificate: Path, key: Path) -> str:
    with pytest.raises(ConfigError) as problem:
        server_context(certificate, key, "api")
    return str(problem.value)


def test_files_that_will_not_do_are_told_by_field_and_with_the_fix(
    authority: Authority, node: Certificate, tmp_path: Path
) -> None:
    nothing = tmp_path / "none.pem"
    assert refused(nothing, node.key) == (
        f"api.tls_certificate: {nothing} cannot be read (no such file or directory); give a file that the daemon may "
        "read"
    )
    assert refused(node.certificate, nothing).startswith(f"api.tls_key: {nothing} cannot be read")
    other = authority.certificate("other")
    assert refused(node.certificate, other.key) == (
        f"api.tls_key: {other.key} is not the key of {node.certificate}; give the key that {node.certificate} was made "
        "with (its own certificate comes first in the file)"
    )
    assert refused(node.key, node.key).startswith(f"api.tls_certificate: {node.key} has no certificate in PEM")
    assert refused(node.certificate, node.certificate).startswith(f"api.tls_key: {node.certificate} has no private key")
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert refused(garbage, node.key).startswith("api.tls_certificate: ")
    with pytest.raises(ConfigError, match=r"--ca: .* has no certificate in PEM"):
        client_context(node.key)


def test_a_key_with_a_passphrase_is_told_and_nobody_is_asked_for_it(node: Certificate, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    command = ["openssl", "pkey", "-in", str(node.key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    assert refused(node.certificate, locked).startswith(f"api.tls_key: {locked} has a passphrase; take it off")


async def test_the_commands_of_the_documents_make_what_is_needed(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    example = text.partition("make an authority of your own")[2].partition("`site-ca.key` stays")[0]
    commands = "\n".join(line[4:] for line in example.splitlines() if line.startswith("    "))
    shell = ["bash", "-euc", commands]
    await asyncio.to_thread(subprocess.run, shell, cwd=tmp_path, check=True, capture_output=True)
    node = server_context(tmp_path / "node.crt", tmp_path / "node.key", "api")
    for name in ("control-node-1", "localhost", "127.0.0.1"):
        assert await spoken(node, client_context(tmp_path / "site-ca.crt"), name) == "TLSv1.3"
