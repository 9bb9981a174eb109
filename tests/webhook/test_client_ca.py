"""`--client-ca`: who has no certificate of that CA is not served, whatever pair is served; the probe is not misled."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import review
from tests.webhook.stage import Stage, play, until, webhook
from tests.webhook.test_life import changed, leaf
from webhook.main import main
from webhook.tls import read_client_ca


class ClientAuthority:
    """A CA for clients; `folder` holds its certificate (`ca.pem`) and those that it has issued."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        made = _unsigned(self._name, self._name, self._key).add_extension(constraints, critical=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def equip(self, client: ssl.SSLContext) -> ssl.SSLContext:
        """The client has a certificate of this CA from now on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        made = _unsigned(subject, self._name, key).sign(self._key, hashes.SHA256())
        pair = self.folder / "client.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        pair.write_bytes(made.public_bytes(Encoding.PEM) + private)
        client.load_cert_chain(pair)
        return client


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )


async def admitted(stage: Stage, client: ssl.SSLContext) -> bool:
    """Whether a client on a connection of its own is answered at all."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client)) as session:
        try:
            async with session.post(stage.url, json=review(pod())) as answer:
                assert answer.status == 200
                return True
        except aiohttp.ClientConnectionError:
            return False


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_only_clients_with_a_certificate_of_the_ca_are_served(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """With the pair that there is at the start, and with the next one; and the port is ready with both."""
    ours, others = (ClientAuthority(tmp_path / name) for name in ("ours", "others"))

    async def story() -> None:
        async with webhook(tmp_path, client_ca=read_client_ca(ours.file)) as stage:

            async def only_ours() -> None:
                for authority, served in ((ours, True), (others, False), (None, False)):
                    client = stage.authority.client
                    client.maximum_version = version
                    assert await admitted(stage, authority.equip(client) if authority else client) is served

            await stage.ready()
            await only_ours()
            old = await leaf(stage)
            stage.authority.issue()
            await until(partial(changed, stage, old), "the new leaf is served")
            await only_ours()
            await asyncio.sleep(10)
            assert (await stage.probe("/readyz"))[0] == 200

    play(story)


def test_what_the_file_said_at_the_start_counts(tmp_path: Path) -> None:
    """Nobody stops the webhook by taking the file away, and nobody is let in by changing it."""
    ours, others = (ClientAuthority(tmp_path / name) for name in ("ours", "others"))

    async def story() -> None:
        async with webhook(tmp_path, client_ca=read_client_ca(ours.file)) as stage:
            await stage.ready()
            for content in (others.file.read_bytes(), b"", None):
                ours.file.unlink() if content is None else ours.file.write_bytes(content)
                old = await leaf(stage)
                stage.authority.issue()
                await until(partial(changed, stage, old), "the new leaf is served")
                assert await admitted(stage, ours.equip(stage.authority.client))
                assert not await admitted(stage, others.equip(stage.authority.client))

    play(story)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        (b"", "no certificate"),
        (b"no certificate", "no certificate"),
        (b"\xff\x00", "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no certificate"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_file_that_is_of_no_use_ends_the_start(
    tmp_path: Path, content: bytes | None, words: str, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 2, and the flag and the file in the message; before anything is listened on, or asked of the cluster."""
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    assert main(["--client-ca", str(file), "--workers", workers, "--kubeconfig", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err
    assert f"--client-ca {file}: " in said
    assert words in said


def test_what_stands_around_the_certificates_does_not_matter(tmp_path: Path) -> None:
    """As in files of bundles, which name what is in them."""
    authority = ClientAuthority(tmp_path / "ours")
    authority.file.write_bytes("# Größe 🌍\n".encode() + authority.file.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=read_client_ca(authority.file))
    assert len(context.get_ca_certs()) == 1
