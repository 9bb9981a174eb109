"""Where credentials come from, and when they are made anew."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ebbtide.errors import ClusterAccessError, UsageError
from ebbtide.kube import errors
from ebbtide.kube.access import Access, discover, from_kubeconfig, from_url, in_cluster
from ebbtide.kube.client import Client
from ebbtide.kube.login import KubeconfigLogin
from ebbtide.kube.resources import NODES
from ebbtide.sim.time import simulate
from tests.ebbtide.kube.pki import Authority, Pair
from tests.ebbtide.kube.wire import Wire, node, refuses, says


def kubeconfig(
    path: Path, server: Any = "https://10.0.0.1:6443", *, user: Mapping[str, Any] | None = None, **cluster: Any
) -> Path:
    """Writes a kubeconfig (JSON is YAML) with the contexts `one` (current, namespace `apps`) and `two`."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "here", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": user if user is not None else {"token": "from-file"}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "here", "user": "me", "namespace": "apps"}},
            {"name": "two", "context": {"cluster": "here", "user": "me"}},
            {"name": "nobody", "context": {"cluster": "here", "user": "stranger"}},
        ],
    }
    path.write_text(json.dumps(content))
    return path


def plugin(directory: Path, *statuses: Mapping[str, Any]) -> dict[str, Any]:
    """A user whose exec plugin gives each of the statuses in turn, then fails; it keeps count in a file."""
    script = directory / "plugin.py"
    script.write_text(
        dedent(
            f"""
            import json, pathlib, sys
            calls = pathlib.Path({str(directory / "calls")!r})
            done = int(calls.read_text()) if calls.exists() else 0
            calls.write_text(str(done + 1))
            statuses = json.loads({json.dumps(statuses)!r})
            if done >= len(statuses):
                sys.exit("identity provider is away")
            print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                               "status": statuses[done]}}))
            """
        )
    )
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}


async def ask(access: Access) -> None:
    async with Client(access, field_manager="ebbtide-test", user_agent="ebbtide/test") as client:
        await client.get(NODES, "a")


NOT_SENT = ["a\nb", "a\r\nX-Other: b", "a\0b", "\ud800", "ä"]


async def authorization(access: Access) -> str | None:
    return (await access.headers()).get("Authorization")


# --- kubeconfig -------------------------------------------------------------------------------------------------


async def test_a_kubeconfig_gives_server_token_namespace_and_a_name_for_messages(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://10.0.0.1:6443/")
    access = await from_kubeconfig(path, None)
    assert access.server == "https://10.0.0.1:6443"
    assert access.namespace == "apps"
    assert access.identity == f"context one in {path}"
    assert await authorization(access) == "Bearer from-file"


async def test_a_context_can_be_chosen_and_need_not_have_a_namespace(tmp_path: Path) -> None:
    access = await from_kubeconfig(kubeconfig(tmp_path / "config"), "two")
    assert access.namespace == ""
    assert access.identity.startswith("context two in")


async def test_several_kubeconfigs_are_merged_and_the_last_current_context_wins(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "first")
    second = tmp_path / "second"
    second.write_text(json.dumps({"current-context": "two", "clusters": None}))
    access = await from_kubeconfig([first, second, tmp_path / "absent"], None)
    assert access.identity.startswith("context two in")


@pytest.mark.parametrize(
    ("content", "context"),
    [
        (None, None),
        ("", None),
        ("{", None),
        ("[1]", None),
        ('{"clusters": 3}', None),
        ("a: b", None),
        ("whole", "three"),
        ("whole", "nobody"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_a_usage_error_that_names_it(
    tmp_path: Path, content: str | None, context: str | None
) -> None:
    path = tmp_path / "config"
    if content == "whole":
        kubeconfig(path)
    elif content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=r"kubeconfig .*config"):
        await from_kubeconfig(path, context)


HAS = "its contexts: nobody, one, two"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("null", "is empty"),
        ("[]", "is no mapping"),
        ("words", "is no mapping"),
        ("a: 1\nb: {", "is not YAML: line 2"),
        ("contexts: 5", "contexts is no list"),
        ("contexts: [5]", "contexts[0] has no name"),
        ("users: [{name: me, user: [1]}]", "user me is no mapping"),
        ("{}", "current-context is not set; give --context (it has no contexts)"),
        ("current-context: a", "current-context names 'a', which is not there; it has no contexts"),
        ("current-context: [a]", "current-context names ['a'], which is not there; it has no contexts"),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: [1]}}]}",
            "context a names the cluster [1], which is not there",
        ),
        ("{current-context: a, contexts: [{name: a}]}", "context a names no cluster"),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_said_to_be_none(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        await from_kubeconfig(path, None)
    assert str(raised.value).startswith(f"kubeconfig {path}: {words}")


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ("nope", f"there is no context nope; {HAS}"),
        ("nobody", "context nobody names the user 'stranger', which is not there"),
    ],
)
async def test_a_context_that_is_not_there_is_said_with_those_that_are(
    tmp_path: Path, context: str, words: str
) -> None:
    path = kubeconfig(tmp_path / "config")
    with pytest.raises(UsageError) as raised:
        await from_kubeconfig(path, context)
    assert str(raised.value) == f"kubeconfig {path}: {words}"


@pytest.mark.parametrize("server", [5, None, "", "ftp://x", "https://", "10.0.0.1:6443", "https://a:b", "https://["])
async def test_a_server_that_is_no_url_is_a_usage_error(tmp_path: Path, server: Any) -> None:
    path = kubeconfig(tmp_path / "config", server)
    shown = "not set" if server is None else repr(server)
    with pytest.raises(UsageError) as raised:
        await from_kubeconfig(path, None)
    words = f"server of cluster here is {shown}, and no http:// or https:// URL"
    assert str(raised.value) == f"kubeconfig {path}: {words}"


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({"certificate-authority": "away.crt"}, {}, "certificate-authority of cluster here is away.crt: no such file"),
        ({"certificate-authority": 5}, {}, "certificate-authority of cluster here is no text"),
        ({"proxy-url": 5}, {}, "proxy-url of cluster here is no text"),
        ({"proxy-url": "gopher://x"}, {}, "proxy-url of cluster here is 'gopher://x', and no http:// or https:// URL"),
        ({"proxy-url": "x"}, {}, "proxy-url of cluster here is 'x', and no http:// or https:// URL"),
        (
            {"proxy-url": "socks5://me:secret@x:1"},
            {},
            "proxy-url of cluster here is 'socks5://…@x:1', and no http:// or https:// URL",
        ),
        ({"proxy-url": "http://"}, {}, "proxy-url of cluster here is 'http://', and no http:// or https:// URL"),
        ({}, {"client-certificate": "away.crt"}, "client-certificate of user me is away.crt: no such file"),
        ({}, {"tokenFile": "away"}, "tokenFile of user me is away: no such file"),
        ({}, {"token": 5}, "token of user me is no text"),
        ({}, {"token": "se\ncret"}, "token of user me has a line break or another control character in it"),
        ({}, {"tokenFile": "broken"}, "tokenFile of user me has a line break or another control character in it"),
    ],
)
async def test_a_field_that_cannot_be_used_is_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    (tmp_path / "broken").write_text("se\ncret\n")
    path = kubeconfig(tmp_path / "config", user=user, **cluster)
    with pytest.raises(UsageError) as raised:
        await from_kubeconfig(path, None)
    assert str(raised.value) == f"kubeconfig {path}: {words}"


async def test_certificates_that_cannot_be_read_are_a_usage_error(tmp_path: Path) -> None:
    nonsense = {"client-certificate-data": "bm9uc2Vuc2U=", "client-key-data": "bm9uc2Vuc2U="}
    with pytest.raises(UsageError, match="certificates cannot be used"):
        await from_kubeconfig(kubeconfig(tmp_path / "config", user=nonsense), None)


async def test_user_and_password_become_basic_authentication(tmp_path: Path) -> None:
    access = await from_kubeconfig(kubeconfig(tmp_path / "c", user={"username": "u", "password": "p"}), None)
    assert await authorization(access) == "Basic " + base64.b64encode(b"u:p").decode()


async def test_a_token_file_is_read_again_when_the_token_is_not_accepted(tmp_path: Path, wire: Wire) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    wire.then(refuses(401), says(node("a", 1)))
    access = await from_kubeconfig(kubeconfig(tmp_path / "c", wire.url, user={"tokenFile": str(token)}), None)
    assert await authorization(access) == "Bearer old"
    token.write_text("new\n")
    await ask(access)
    assert [seen.headers["Authorization"] for seen in wire.seen] == ["Bearer old", "Bearer new"]


async def test_credentials_that_stay_unaccepted_are_tried_twice_and_no_more(wire: Wire) -> None:
    wire.then(refuses(401, "Unauthorized"))
    with pytest.raises(errors.Unauthorized):
        await ask(from_url(wire.url, token="wrong"))
    assert len(wire.seen) == 2


async def test_a_write_that_was_not_accepted_is_sent_again_with_fresh_credentials(wire: Wire) -> None:
    """Nothing was done with the first one, so this repeats nothing."""
    wire.then(refuses(401), says({}))
    access = from_url(wire.url)
    async with Client(access, field_manager="ebbtide-test", user_agent="ebbtide/test") as client:
        await client.patch_merge(NODES, "a", {})
    assert [seen.method for seen in wire.seen] == ["PATCH", "PATCH"]


@pytest.mark.parametrize("token", NOT_SENT)
async def test_a_token_that_no_header_can_carry_is_told_of_as_one(token: str, tmp_path: Path) -> None:
    """Whether it is there at the start or comes later, from a file or from a plugin."""
    path = kubeconfig(tmp_path / "config", user=plugin(tmp_path, {"token": token}))
    with pytest.raises(ClusterAccessError, match=r"context one in .*: its token cannot be sent: there is a line break"):
        await from_kubeconfig(path, None)
    path = kubeconfig(tmp_path / "config", user=plugin(tmp_path, {"token": "good"}, {"token": token}))
    (tmp_path / "calls").unlink()
    access = await from_kubeconfig(path, None)
    access.forget()
    with pytest.raises(errors.NoCredentials, match="its token cannot be sent"):
        await access.headers()


# --- exec plugins -----------------------------------------------------------------------------------------------


async def test_a_plugin_is_asked_once_and_again_when_its_token_is_not_accepted(tmp_path: Path, wire: Wire) -> None:
    wire.then(says(node("a", 1)), refuses(401), says(node("a", 1)))
    user = plugin(tmp_path, {"token": "first"}, {"token": "second"})
    access = await from_kubeconfig(kubeconfig(tmp_path / "config", wire.url, user=user), None)
    await ask(access)
    await ask(access)
    assert [seen.headers["Authorization"] for seen in wire.seen] == ["Bearer first", "Bearer first", "Bearer second"]
    assert (tmp_path / "calls").read_text() == "2"


async def test_a_plugin_that_fails_at_the_start_is_reported_in_its_own_words(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", user=plugin(tmp_path))
    with pytest.raises(ClusterAccessError, match="identity provider is away"):
        await from_kubeconfig(path, None)


async def test_a_plugin_that_fails_later_is_a_request_without_credentials(tmp_path: Path, wire: Wire) -> None:
    wire.then(refuses(401))
    path = kubeconfig(tmp_path / "config", wire.url, user=plugin(tmp_path, {"token": "first"}))
    access = await from_kubeconfig(path, None)
    with pytest.raises(errors.NoCredentials, match="identity provider is away"):
        await ask(access)


async def test_a_plugin_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(tmp_path / "absent")}}
    with pytest.raises(ClusterAccessError, match="absent"):
        await from_kubeconfig(kubeconfig(tmp_path / "config", user=user), None)


SOON_AND_LATE = ("2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z")
# The library's own, from Python 3.12 on.
uses_utcnow = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


@uses_utcnow
async def test_a_plugins_token_is_renewed_before_it_ends_and_not_before_that(tmp_path: Path) -> None:
    tokens = [{"token": token, "expirationTimestamp": end} for token, end in zip("ab", SOON_AND_LATE, strict=True)]
    login = KubeconfigLogin([kubeconfig(tmp_path / "config", user=plugin(tmp_path, *tokens))], None, look_again=0.0)
    await login.start()
    shown = [await login.headers() for _ in range(3)]
    assert [headers["Authorization"] for headers in shown] == ["Bearer b"] * 3
    assert (tmp_path / "calls").read_text() == "2"


@uses_utcnow
async def test_while_a_plugin_fails_to_renew_the_old_token_is_still_shown(tmp_path: Path) -> None:
    user = plugin(tmp_path, {"token": "a", "expirationTimestamp": SOON_AND_LATE[0]})
    login = KubeconfigLogin([kubeconfig(tmp_path / "config", user=user)], None, look_again=0.0)
    await login.start()
    assert await login.headers() == {"Authorization": "Bearer a"}
    assert (tmp_path / "calls").read_text() == "2"


async def test_a_plugin_that_has_just_failed_is_not_asked_by_every_request(tmp_path: Path) -> None:
    access = await from_kubeconfig(kubeconfig(tmp_path / "config", user=plugin(tmp_path, {"token": "a"})), None)
    for _ in range(5):
        access.forget()
        with pytest.raises(errors.NoCredentials):
            await access.headers()
    assert (tmp_path / "calls").read_text() == "2"


def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    token = tmp_path / "token"
    path = kubeconfig(tmp_path / "config", user={"tokenFile": str(token)})

    async def scenario() -> list[str | None]:
        token.write_text("old")
        access = await from_kubeconfig(path, None)
        token.write_text("new")
        before = await authorization(access)
        await asyncio.sleep(61)
        return [before, await authorization(access)]

    assert simulate(scenario()) == ["Bearer old", "Bearer new"]


# --- certificates -----------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def me(authority: Authority) -> Pair:
    return authority.issue("me")


def embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.parametrize("inline", [True, False])
async def test_a_client_certificate_and_the_clusters_own_authority(
    tmp_path: Path, authority: Authority, me: Pair, inline: bool
) -> None:
    if inline:
        user = {"client-certificate-data": embedded(me.certificate), "client-key-data": embedded(me.key)}
        cluster = {"certificate-authority-data": embedded(authority.file)}
    else:
        user = {"client-certificate": str(me.certificate), "client-key": str(me.key)}
        cluster = {"certificate-authority": str(authority.file)}
    async with Wire([says(node("a", 1))], tls=authority.server(authority.issue("server"))) as wire:
        access = await from_kubeconfig(kubeconfig(tmp_path / "config", wire.url, user=user, **cluster), None)
        await ask(access)
    assert len(wire.seen) == 1


async def test_a_plugin_can_give_a_client_certificate(tmp_path: Path, authority: Authority, me: Pair) -> None:
    status = {
        "clientCertificateData": me.certificate.read_text(),
        "clientKeyData": me.key.read_text(),
    }
    async with Wire([says(node("a", 1))], tls=authority.server(authority.issue("server"))) as wire:
        path = kubeconfig(
            tmp_path / "config",
            wire.url,
            user=plugin(tmp_path, status),
            **{"certificate-authority": str(authority.file)},
        )
        await ask(await from_kubeconfig(path, None))
    assert len(wire.seen) == 1


async def test_connections_are_opened_anew_with_a_renewed_certificate(
    tmp_path: Path, authority: Authority, me: Pair
) -> None:
    """A connection keeps the certificate with which it was opened, so the old ones are of no use after a 401."""
    certificates = [
        {"clientCertificateData": pair.certificate.read_text(), "clientKeyData": pair.key.read_text()}
        for pair in (me, authority.issue("renewed"))
    ]
    script = [says(node("a", 1)), refuses(401), says(node("a", 1))]
    async with Wire(script, tls=authority.server(authority.issue("server"))) as wire:
        path = kubeconfig(
            tmp_path / "config",
            wire.url,
            user=plugin(tmp_path, *certificates),
            **{"certificate-authority": str(authority.file)},
        )
        access = await from_kubeconfig(path, None)
        async with Client(access, field_manager="ebbtide-test", user_agent="ebbtide/test") as client:
            await client.get(NODES, "a")
            await client.get(NODES, "a")
    assert [seen.peer for seen in wire.seen] == ["me", "me", "renewed"]


async def test_a_server_of_another_authority_is_unreachable(tmp_path: Path, authority: Authority, me: Pair) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with Wire([says({})], tls=authority.server(authority.issue("server"))) as wire:
        access = from_url(wire.url, ca_file=stranger.file)
        async with Client(access, field_manager="ebbtide-test", user_agent="ebbtide/test") as client:
            with pytest.raises(errors.Unreachable, match=r"/a: the certificate of 127.* is not trusted"):
                await client.patch_merge(NODES, "a", {})
    assert wire.seen == []


async def test_the_servers_certificate_may_say_another_name_if_the_kubeconfig_says_so(
    tmp_path: Path, authority: Authority, me: Pair
) -> None:
    user = {"client-certificate": str(me.certificate), "client-key": str(me.key)}
    cluster = {"certificate-authority": str(authority.file), "tls-server-name": "kube.example"}
    async with Wire([says(node("a", 1))], tls=authority.server(authority.issue("server", host="kube.example"))) as wire:
        await ask(await from_kubeconfig(kubeconfig(tmp_path / "config", wire.url, user=user, **cluster), None))
    assert len(wire.seen) == 1


async def test_verification_can_be_switched_off(tmp_path: Path, authority: Authority, me: Pair) -> None:
    user = {"client-certificate": str(me.certificate), "client-key": str(me.key)}
    async with Wire([says(node("a", 1))], tls=authority.server(authority.issue("server"))) as wire:
        path = kubeconfig(tmp_path / "config", wire.url, user=user, **{"insecure-skip-tls-verify": True})
        await ask(await from_kubeconfig(path, None))
    assert len(wire.seen) == 1


# --- in a cluster -----------------------------------------------------------------------------------------------

POD_ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("projected\n")
    (tmp_path / "ca.crt").write_text("not looked at before a connection is opened")
    (tmp_path / "namespace").write_text("ebbtide-system")
    return tmp_path


async def test_a_pod_has_a_server_a_token_and_a_namespace(service_account: Path) -> None:
    access = in_cluster(service_account, POD_ENVIRONMENT)
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "ebbtide-system"
    assert await authorization(access) == "Bearer projected"


async def test_a_rotated_token_is_read_when_the_old_one_is_not_accepted(service_account: Path) -> None:
    access = in_cluster(service_account, POD_ENVIRONMENT)
    (service_account / "token").write_text("rotated")
    assert await authorization(access) == "Bearer projected"
    access.forget()
    assert await authorization(access) == "Bearer rotated"


async def test_a_token_file_that_is_empty_for_a_moment_is_no_credentials_and_then_works(service_account: Path) -> None:
    access = in_cluster(service_account, POD_ENVIRONMENT)
    (service_account / "token").write_text("")
    access.forget()
    with pytest.raises(errors.NoCredentials):
        await access.headers()
    (service_account / "token").write_text("back")
    assert await authorization(access) == "Bearer back"


@pytest.mark.parametrize("token", NOT_SENT[:3])
async def test_a_token_file_that_no_header_can_carry_is_no_credentials(token: str, service_account: Path) -> None:
    access = in_cluster(service_account, POD_ENVIRONMENT)
    (service_account / "token").write_text(token)
    access.forget()
    with pytest.raises(errors.NoCredentials, match="in-cluster service account: its token cannot be sent"):
        await access.headers()


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_an_incomplete_service_account_is_no_access(service_account: Path, missing: str) -> None:
    (service_account / missing).unlink()
    with pytest.raises(ClusterAccessError, match="in-cluster"):
        in_cluster(service_account, POD_ENVIRONMENT)


def test_outside_a_pod_there_is_no_service_account(service_account: Path) -> None:
    with pytest.raises(ClusterAccessError):
        in_cluster(service_account, {})


# --- which one --------------------------------------------------------------------------------------------------


async def test_the_flag_comes_before_the_environment_and_that_before_the_home(tmp_path: Path) -> None:
    home = tmp_path / ".kube/config"
    home.parent.mkdir()
    for path in (home, tmp_path / "flag", tmp_path / "listed"):
        kubeconfig(path)
    environ = {"HOME": str(tmp_path), "KUBECONFIG": f":{tmp_path / 'listed'}:"}
    assert "flag" in (await discover(tmp_path / "flag", None, environ)).identity
    assert "listed" in (await discover(None, "two", environ)).identity
    assert ".kube/config" in (await discover(None, None, {"HOME": str(tmp_path)})).identity


async def test_nothing_at_all_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ClusterAccessError, match="--kubeconfig"):
        await discover(None, None, {"HOME": str(tmp_path)})


async def test_a_proxy_of_the_kubeconfig_is_used_and_never_one_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", ".internal")
    other: dict[str, Any] = {"proxy-url": "http://other.example:1"}
    named = await from_kubeconfig(kubeconfig(tmp_path / "a", **other), None)
    environment = await from_kubeconfig(kubeconfig(tmp_path / "b"), None)
    excepted = await from_kubeconfig(kubeconfig(tmp_path / "c", "https://api.internal"), None)
    here = [await from_kubeconfig(kubeconfig(tmp_path / "d", f"https://{host}:6443"), None) for host in HERE]
    assert named.proxy == "http://other.example:1"
    assert environment.proxy == "http://proxy.example:3128"
    assert [access.proxy for access in (excepted, *here)] == [""] * 4


HERE = ("127.0.0.1", "localhost", "[::1]")


# --- memory -----------------------------------------------------------------------------------------------------


def test_no_generated_model_is_loaded_and_they_are_still_there_for_who_wants_them(tmp_path: Path) -> None:
    """Over 700 modules and 30 MB that nothing in ebbtide uses."""
    program = """
        import asyncio, pathlib, sys
        from ebbtide.kube.access import from_kubeconfig
        asyncio.run(from_kubeconfig(pathlib.Path(sys.argv[1]), None))
        prefixes = ("kubernetes_asyncio.client.models.", "kubernetes_asyncio.client.api.")
        print(sum(name.startswith(prefixes) for name in sys.modules))
        import kubernetes_asyncio
        print(hasattr(kubernetes_asyncio.client, "__wrapped__"))
        print(sum(name.startswith(prefixes) for name in sys.modules))
        from kubernetes_asyncio.client import CoreV1Api, V1Pod
        print(V1Pod.__name__, CoreV1Api.__name__, kubernetes_asyncio.client.models.V1Pod is V1Pod)
        print(kubernetes_asyncio.watch.Watch.__name__, bool(kubernetes_asyncio.__version__))
    """
    command = [sys.executable, "-c", dedent(program), str(kubeconfig(tmp_path / "config"))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["0", "False", "0", "V1Pod CoreV1Api True", "Watch True"], ran.stderr
