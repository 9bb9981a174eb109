"""The small client of a pod: whom it believes, what it shows, and when it is not the one to use."""

import ssl
from pathlib import Path

import pytest

from ebbtide.kube.errors import NoCredentials, Unreachable
from ebbtide.kube.slim import SlimClient, server_of_pod
from tests.ebbtide.kube.pki import Authority
from tests.ebbtide.kube.wire import Wire, says

AGENT = "ebbtide/test"


def account(folder: Path, authority: Authority, token: str = "first") -> Path:
    """A service account's folder."""
    folder.mkdir(exist_ok=True)
    (folder / "ca.crt").write_bytes(authority.file.read_bytes())
    (folder / "token").write_text(f"{token}\n")
    return folder


def served_by(authority: Authority) -> ssl.SSLContext:
    pair = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_a_request_carries_the_token_of_the_moment(tmp_path: Path, authority: Authority) -> None:
    """The kubelet replaces it while the pod runs."""
    folder = account(tmp_path / "account", authority)
    async with Wire([says({"kind": "Node"})], tls=served_by(authority)) as wire:
        client = SlimClient(wire.url, folder, AGENT)
        answer = await client.request("GET", "/api/v1/nodes/a1")
        account(folder, authority, "second")
        await client.request("PATCH", "/api/v1/nodes/a1", params={"dryRun": "All"}, body=[1], content_type="x/y")
    first, second = wire.seen
    assert (answer.status, answer.json()) == (200, {"kind": "Node"})
    assert first.headers["Authorization"] == "Bearer first"
    assert second.headers["Authorization"] == "Bearer second"
    assert second.headers["User-Agent"] == AGENT
    assert (second.method, second.query, second.json) == ("PATCH", {"dryRun": "All"}, [1])
    assert second.headers["Content-Type"] == "x/y"


async def test_an_authority_that_was_replaced_is_believed_at_once(tmp_path: Path, authority: Authority) -> None:
    """And the one before no more."""
    folder = account(tmp_path / "account", Authority(tmp_path, "another"))
    async with Wire([says({})], tls=served_by(authority)) as wire:
        client = SlimClient(wire.url, folder, AGENT)
        with pytest.raises(Unreachable, match=r"the certificate of 127.* is not trusted"):
            await client.request("GET", "/")
        account(folder, authority)
        assert (await client.request("GET", "/")).status == 200


async def test_a_refusal_is_returned_and_not_raised(tmp_path: Path, authority: Authority) -> None:
    folder = account(tmp_path / "account", authority)
    async with Wire([says({"kind": "Status", "code": 403}, 403)], tls=served_by(authority)) as wire:
        assert (await SlimClient(wire.url, folder, AGENT).request("GET", "/")).status == 403


async def test_no_server_and_no_token_are_told_apart(
    tmp_path: Path, authority: Authority, unused_tcp_port: int
) -> None:
    client = SlimClient(f"https://127.0.0.1:{unused_tcp_port}", account(tmp_path / "account", authority), AGENT)
    with pytest.raises(Unreachable, match="GET /x"):
        await client.request("GET", "/x")
    (tmp_path / "account" / "token").unlink()
    with pytest.raises(NoCredentials, match="service account"):
        await client.request("GET", "/x")


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_a_token_that_no_header_can_carry_is_none(tmp_path: Path, authority: Authority) -> None:
    client = SlimClient("https://127.0.0.1:1", account(tmp_path, authority, "a\nb"), "test")
    with pytest.raises(NoCredentials, match="its token cannot be sent"):
        await client.request("GET", "/version")


def test_a_pod_knows_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    assert server_of_pod(IN_POD, tmp_path) == "https://10.96.0.1:443"
    assert server_of_pod(IN_POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path) == "https://[fd00::1]:443"
    assert server_of_pod({}, tmp_path) == ""
    assert server_of_pod(IN_POD, tmp_path / "absent") == ""


def test_behind_a_proxy_the_full_client_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the server is excepted from it."""
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert server_of_pod(IN_POD, tmp_path) == ""
    monkeypatch.setenv("no_proxy", "10.96.0.1")
    assert server_of_pod(IN_POD, tmp_path) == "https://10.96.0.1:443"
