"""`ebbtide status` as a process: whom it asks, what it falls back to, and how it ends."""

import asyncio
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from reconciler.state import NOTHING_KNOWN, document
from tests.ebbtide.cli.commands import ROOT, environment, kubeconfig, run, serving
from tests.reconciler.rebalance.builders import DEFAULTS, NOW, node

NOBODY = "http://127.0.0.1:1"
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "ebbtide-reconciler", "namespace": "ebbtide-system"},
    "spec": {"holderIdentity": "ebbtide-0", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.000000Z"},
}
STATE = document([node("a1", signal=400, prevent=True)], None, NOTHING_KNOWN, DEFAULTS, NOW) | {"source": "leader"}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """One node in one zone."""
    async with Cluster() as created:
        created.create(objects.namespace("ebbtide-system"), objects.node("a1", group="g", zone="a"))
        yield created


@pytest.fixture
async def config(cluster: Cluster, tmp_path: Path) -> str:
    """A kubeconfig for it."""
    return str(kubeconfig(tmp_path, await cluster.serve()))


async def reconciler(request: web.BaseRequest) -> web.StreamResponse:
    """What a leader serves."""
    if request.path != "/api/v1/state":
        return web.Response(status=404)
    return web.Response(body=orjson.dumps(STATE), content_type="application/json")


async def test_without_a_leader_it_reads_the_nodes_and_says_so(config: str) -> None:
    """In the table; for JSON, which others read, on standard error."""
    table = await run("status", "--kubeconfig", config)
    assert (table.code, table.err) == (0, "")
    words = " ".join(table.out.split())
    assert "no node has both labels" not in words
    assert (
        "no reconciler has run with lease ebbtide-reconciler in namespace ebbtide-system (a dry run takes none)"
        in words
    )
    assert table.out.splitlines()[-1].split()[:3] == ["g", "a", "open"]
    read = await run("status", "--kubeconfig", config, "--output", "json")
    assert (read.code, orjson.loads(read.out)["source"]) == (0, "nodes")
    assert read.err.startswith("note: no reconciler has run")


async def test_the_label_that_was_looked_for_is_named_where_no_node_has_it(config: str) -> None:
    ended = await run("status", "--kubeconfig", config, EBBTIDE__NODE_REBALANCE__NODE_GROUP_LABEL="pool")
    words = " ".join(ended.out.split())
    assert "note: no node has both labels, pool (node group) and topology.kubernetes.io/zone (zone)" in words
    assert "no node belongs to a zone of a node group: label the nodes (in the launch template or node group)" in words
    assert "or set node-rebalance.node-group-label, for the reconciler and for this command" in words


async def test_the_leader_is_asked_by_way_of_the_api_server(tmp_path: Path) -> None:
    """A server that proxies to the pod that holds the lease, on the port of its metrics."""
    seen = []

    async def api_server(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.path)
        if request.path.endswith("/leases/ebbtide-reconciler"):
            return web.json_response(LEASE)
        if request.path == "/api/v1/namespaces/ebbtide-system/pods/ebbtide-0:8080/proxy/api/v1/state":
            return web.Response(body=orjson.dumps(STATE), content_type="application/json")
        return web.json_response({"kind": "Status", "message": "no"}, status=500)

    async with serving(api_server) as url:
        ended = await run("status", "--kubeconfig", str(kubeconfig(tmp_path, url)), "--output", "json")
    assert (ended.code, ended.err, orjson.loads(ended.out)) == (0, "", STATE)
    assert len(seen) == 2


async def test_a_leader_that_cannot_be_asked_is_named_with_the_reason(cluster: Cluster, config: str) -> None:
    cluster.create(LEASE)
    ended = await run("status", "--kubeconfig", config)
    assert ended.code == 0
    assert "leader: ebbtide-0" in ended.out
    assert "the leader ebbtide-0 cannot be asked, so this is read off the nodes: the answer was 404" in ended.out


async def test_a_lease_that_may_not_be_read_leaves_the_leader_unknown(cluster: Cluster, config: str) -> None:
    cluster.faults.inject(Answer(403, "Forbidden", "cannot get leases"), When(path="*/leases/*"))
    ended = await run("status", "--kubeconfig", config)
    assert ended.code == 0
    assert "who leads is unknown" in ended.out
    assert "cannot get leases" in ended.out


async def test_a_reconciler_is_asked_directly_without_any_cluster(tmp_path: Path) -> None:
    async with serving(reconciler) as url:
        ended = await run("status", "--url", url, "--output", "json", "--kubeconfig", str(tmp_path / "none"))
    assert (ended.code, ended.err, orjson.loads(ended.out)) == (0, "", STATE)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, b"<html>"), "no state of a reconciler"),
        ((200, b"[]"), "no state of a reconciler"),
        ((503, b'{"error": "the list of nodes is not complete yet"}'), "503: the list of nodes is not complete yet"),
    ],
)
async def test_what_answers_without_a_state_is_said_and_the_cluster_is_asked(
    answer: tuple[int, bytes], words: str, config: str
) -> None:
    async def other(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=answer[0], body=answer[1])

    async with serving(other) as url:
        ended = await run("status", "--url", url, "--kubeconfig", config)
    assert ended.code == 0
    assert words in ended.out
    assert "read off the nodes" in ended.out


async def test_when_neither_answers_it_ends_with_3_and_names_both(tmp_path: Path) -> None:
    ended = await run("status", "--url", NOBODY, "--kubeconfig", str(kubeconfig(tmp_path, NOBODY)))
    assert (ended.code, ended.out) == (3, "")
    assert f"{NOBODY}/api/v1/state cannot be reached: 127.0.0.1:1 refuses connections" in ended.err
    assert "context test" in ended.err
    assert "Traceback" not in ended.err


async def test_nodes_that_may_not_be_listed_end_it_with_3_and_the_servers_words(cluster: Cluster, config: str) -> None:
    message = 'nodes is forbidden: User "eve" cannot list resource "nodes"'
    cluster.faults.inject(Answer(403, "Forbidden", message), When(path="/api/v1/nodes"))
    ended = await run("status", "--kubeconfig", config)
    assert (ended.code, ended.out) == (3, "")
    assert message in ended.err


async def test_a_url_that_is_none_is_an_error_of_usage() -> None:
    ended = await run("status", "--url", "localhost:8080")
    assert ended.code == 2
    assert "'localhost:8080' is no http:// or https:// URL" in ended.err


async def test_a_reader_that_goes_away_ends_it_quietly(config: str) -> None:
    """`ebbtide status | head -1`, with the reader gone before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ebbtide", "status", "--kubeconfig", config),
        cwd=ROOT,
        env=environment(),
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writing)
    _, err = await process.communicate()
    assert (process.returncode, err) == (141, b"")


async def test_without_a_terminal_watching_repeats_one_document_a_line_until_interrupted() -> None:
    async with serving(reconciler) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ebbtide", "status", "--url", url, "--watch", "--output", "json"),
            cwd=ROOT,
            env=environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        for _ in range(2):
            assert orjson.loads(await process.stdout.readline()) == STATE
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")


@pytest.mark.parametrize("colours", [True, False])
async def test_on_a_terminal_watching_redraws_goes_on_through_failures_and_ends_cleanly(colours: bool) -> None:
    """The last picture stays, with the reason for its age; Ctrl-C gives the cursor back."""
    failing = asyncio.Event()

    async def ailing(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500, text="{}") if failing.is_set() else await reconciler(request)

    own, theirs = pty.openpty()
    os.set_blocking(own, False)
    async with serving(ailing) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ebbtide", "status", "--url", url, "--watch"),
            cwd=ROOT,
            env=environment(TERM="xterm", **({} if colours else {"NO_COLOR": "1"})),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = await until(own, "blocked")
        failing.set()
        seen += await until(own, "no newer state can be had")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        seen += rest(own)
    os.close(own)
    assert "Traceback" not in seen
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
    assert bool(re.search(r"\x1b\[[0-9;]*3\d", seen)) is colours


async def until(terminal: int, words: str) -> str:
    """What the terminal shows until these words are among it."""
    seen = ""
    async with asyncio.timeout(120):
        while words not in seen:
            seen += rest(terminal)
            await asyncio.sleep(0.05)
    return seen


def rest(terminal: int) -> str:
    """What is there to read now."""
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except OSError:
        return ""
