"""An address that cannot be had: every program names the key, what is wrong, and who has set it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.service.listening import ListenError, UnusableAddressError, bind
from tests.ebbtide.cli.commands import kubeconfig, run

LOOPBACK = "127.0.0.1"
# Reserved for documentation (RFC 5737): no machine has it.
NOT_OURS = "192.0.2.1"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port where somebody listens."""
    with bind(LOOPBACK, 0) as listening:
        yield listening.getsockname()[1]


def test_a_port_that_is_taken_may_be_free_later(taken: int) -> None:
    with pytest.raises(ListenError) as failed:
        bind(LOOPBACK, taken, "webhook.listen")
    assert (
        str(failed.value)
        == f'webhook.listen = "{LOOPBACK}:{taken}" cannot be listened on: something else listens there'
    )
    assert failed.value.exit_code == 1


@pytest.mark.parametrize(
    ("host", "why"),
    [(NOT_OURS, "this machine has no such address"), ("nowhere.invalid", "")],
)
def test_an_address_that_this_machine_cannot_have_is_a_setting_that_cannot_be_used(host: str, why: str) -> None:
    with pytest.raises(UnusableAddressError) as failed:
        bind(host, 0, "webhook.listen")
    assert str(failed.value).startswith(f'webhook.listen = "{host}:0" cannot be listened on: {why}')
    assert failed.value.exit_code == 2


def test_who_has_set_it_is_said_at_the_end() -> None:
    error = UnusableAddressError("a:1", "gone", "webhook.listen").set_by("/etc/ebbtide.toml")
    assert str(error) == 'webhook.listen = "a:1" cannot be listened on: gone [/etc/ebbtide.toml]'
    assert type(error) is UnusableAddressError


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_an_address_of_the_sixth_version_takes_both_where_there_are_both() -> None:
    """As with other programs: `[::]` is every address of the machine."""
    with bind("::", 0) as listening, socket.create_connection((LOOPBACK, listening.getsockname()[1])) as client:
        assert client.getpeername()[1] == listening.getsockname()[1]


PROGRAMS = {
    "reconciler": (("reconciler",), "observability.listen", "EBBTIDE__OBSERVABILITY__LISTEN"),
    "front": (("reconciler",), "worker-scaler.listen", "EBBTIDE__WORKER_SCALER__LISTEN"),
    "webhook": (("webhook",), "webhook.listen", "EBBTIDE__WEBHOOK__LISTEN"),
    "workers of a webhook": (("webhook", "--workers", "2"), "webhook.health-listen", "EBBTIDE__WEBHOOK__HEALTH_LISTEN"),
    "agent": (("agent", "--node-name", "a"), "observability.listen", "EBBTIDE__OBSERVABILITY__LISTEN"),
}
ELSEWHERE = {variable: f"{LOOPBACK}:0" for _, _, variable in PROGRAMS.values()}


@pytest.mark.parametrize(("words", "key", "variable"), PROGRAMS.values(), ids=PROGRAMS)
async def test_a_program_names_the_key_and_the_variable(
    words: tuple[str, ...], key: str, variable: str, taken: int, tmp_path: Path
) -> None:
    where = f"{LOOPBACK}:{taken}"
    environ = {**ELSEWHERE, "EBBTIDE__WORKER_SCALER__RUN": "true", variable: where}
    ended = await run(*words, "--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:1")), **environ)
    assert ended.code == 1
    assert f'{key} = "{where}" cannot be listened on: something else listens there [{variable}]' in ended.err


@pytest.mark.parametrize("program", ["reconciler", "agent"])
async def test_a_program_names_the_file(program: str, tmp_path: Path) -> None:
    config = tmp_path / "ebbtide.toml"
    config.write_text(f'[observability]\nlisten = "{NOT_OURS}:1"\n')
    flags = ("--config", str(config), "--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:1")))
    ended = await run(program, *flags, NODE_NAME="a")
    assert ended.code == 2
    assert f"this machine has no such address [{config}]" in ended.err
