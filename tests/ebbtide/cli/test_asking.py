"""A command that asks a cluster once, in front of a server that takes connections and never says a word."""

import argparse
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.cli.asking import add_flags, ask
from ebbtide.config import Settings
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.client import Client
from ebbtide.kube.resources import NODES
from tests.ebbtide.cli.commands import kubeconfig


@pytest.fixture
def mute() -> Iterator[str]:
    """Host and port of a socket whose connections are made and never served."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def question(client: Client, settings: Settings) -> int:
    await client.list_all(NODES)
    return 0


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_never_answers_is_given_up_within_the_patience(scheme: str, mute: str, tmp_path: Path) -> None:
    """Whether it keeps silent on the request or in the TLS handshake before it."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    arguments = parser.parse_args(["--kubeconfig", str(kubeconfig(tmp_path, f"{scheme}://{mute}"))])
    with pytest.raises(
        ClusterAccessError, match=r"cannot be reached: GET /api/v1/nodes: no answer within 0\.2 s"
    ) as ended:
        ask(arguments, question, patience=0.2)
    assert ended.value.exit_code == 3
