"""The check at the start: what is waited for, what ends the program, and in which words."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from ebbtide.errors import ClusterAccessError
from ebbtide.kube.access import Access
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, KubeError, Unauthorized, Unavailable
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import EVENTS, LEASES, NODES, PODS
from ebbtide.service.permissions import persistence, wait_until_permitted
from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Wire

LIST_NODES = Need("list", NODES, "to know zones")
PATCH_NODES = Need("patch", NODES, "to taint a zone")
EVICT = Need("create", PODS, "to move pods", subresource="eviction")
GET_LEASE = Need("get", LEASES, "leader election", namespace="ebbtide-system", name="x")
TELL = Need("create", EVENTS, "to tell what was done", essential=False)
ALL = (LIST_NODES, PATCH_NODES, EVICT, GET_LEASE, TELL)


class Authorizer:
    """Answers access reviews; refuses the `denied` (verb, resource/subresource), and other requests by `status`."""

    def __init__(self, *denied: tuple[str, str]) -> None:
        self.denied = set(denied)
        self.status: dict[str, int] = {}
        self.asked: list[Mapping[str, str]] = []
        self.wire: Wire | None = None

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        server = web.Server(self._handle)
        self.wire = Wire(server)
        access = Access(
            server="http://memory",
            connector=self.wire.connector,
            headers=self._headers,
            namespace="",
            identity="context test",
        )
        try:
            async with Client(access, field_manager="test", user_agent="test") as client:
                yield client
        finally:
            self.wire.reset()
            await server.shutdown(0)

    @staticmethod
    async def _headers() -> Mapping[str, str]:
        return {}

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        kind = request.path.rstrip("/").rpartition("/")[2]
        if (status := self.status.get(kind, self.status.get("*"))) is not None:
            return web.json_response({"kind": "Status", "message": "by order of the test"}, status=status)
        if kind != "selfsubjectaccessreviews":
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        attributes = (await request.json())["spec"]["resourceAttributes"]
        self.asked.append(attributes)
        what = "/".join(part for part in (attributes["resource"], attributes["subresource"]) if part)
        return web.json_response({"status": {"allowed": (attributes["verb"], what) not in self.denied}}, status=201)


def ignore(_reason: str) -> None:
    pass


def test_who_may_do_everything_goes_on_at_once() -> None:
    async def main() -> None:
        authorizer = Authorizer()
        async with authorizer.client() as client:
            await wait_until_permitted(client, ALL, ignore)
        assert asyncio.get_running_loop().time() == 0
        assert authorizer.asked[3] == {
            "verb": "get",
            "group": "coordination.k8s.io",
            "resource": "leases",
            "subresource": "",
            "namespace": "ebbtide-system",
            "name": "x",
        }

    simulate(main())


def test_every_essential_refusal_is_in_one_message_with_verb_resource_and_purpose() -> None:
    async def main() -> None:
        authorizer = Authorizer(("patch", "nodes"), ("create", "pods/eviction"), ("get", "leases"))
        async with authorizer.client() as client:
            with pytest.raises(ClusterAccessError) as raised:
                await wait_until_permitted(client, ALL, ignore)
        assert str(raised.value) == (
            "context test is not permitted to:\n"
            "  patch nodes (to taint a zone)\n"
            "  create pods/eviction (to move pods)\n"
            "  get leases.coordination.k8s.io in namespace ebbtide-system (leader election)"
        )

    simulate(main())


def test_a_refusal_that_is_not_essential_is_a_warning() -> None:
    async def main() -> None:
        async with Authorizer(("create", "events")).client() as client:
            with capture_logs() as entries:
                await wait_until_permitted(client, ALL, ignore)
        (warning,) = [entry for entry in entries if entry["log_level"] == "warning"]
        assert warning["need"] == "create events.events.k8s.io (to tell what was done)"

    simulate(main())


def test_credentials_that_are_not_accepted_end_the_program() -> None:
    async def main() -> None:
        authorizer = Authorizer()
        authorizer.status["*"] = 401
        async with authorizer.client() as client:
            with pytest.raises(ClusterAccessError, match=r"does not accept the credentials of context test \(401\)"):
                await wait_until_permitted(client, ALL, ignore)

    simulate(main())


@pytest.mark.parametrize("status", [500, 503, 429, None], ids=["500", "503", "429", "away"])
def test_a_cluster_that_cannot_answer_now_is_waited_for_and_told_once(status: int | None) -> None:
    async def main() -> None:
        authorizer, reasons = Authorizer(), list[str]()
        async with authorizer.client() as client:
            assert authorizer.wire is not None
            authorizer.wire.refusing = status is None
            if status is not None:
                authorizer.status["*"] = status
            with capture_logs() as entries:
                waiting = asyncio.ensure_future(wait_until_permitted(client, ALL, reasons.append))
                await asyncio.sleep(300)
                assert not waiting.done()
                assert reasons
                authorizer.status.clear()
                authorizer.wire.refusing = False
                await waiting
        assert len([entry for entry in entries if entry["log_level"] == "warning"]) == 1

    simulate(main())


def test_where_nobody_may_ask_the_reads_are_tried_instead() -> None:
    async def main() -> None:
        authorizer = Authorizer()
        authorizer.status = {"selfsubjectaccessreviews": 403, "nodes": 403, "x": 404}
        async with authorizer.client() as client:
            with pytest.raises(ClusterAccessError, match=r"not permitted to: list nodes \(to know zones\)$"):
                await wait_until_permitted(client, ALL, ignore)

    simulate(main())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Unauthorized("WATCH /api/v1/nodes", 401, "Unauthorized", "token expired"), r"\(401\): token expired"),
        (
            Forbidden("WATCH /api/v1/nodes", 403, "Forbidden", "no role"),
            "not permitted to WATCH /api/v1/nodes: no role",
        ),
    ],
    ids=["401", "403"],
)
async def test_a_refusal_of_something_that_runs_ends_it_only_when_it_lasts(error: KubeError, words: str) -> None:
    silence = 0.0
    async with Authorizer().client() as client:
        judge = persistence(client, lambda: silence, within=60)
        judge(error)
        silence = 61.0
        with pytest.raises(ClusterAccessError, match=words):
            judge(error)


async def test_a_server_that_is_away_never_ends_anything() -> None:
    async with Authorizer().client() as client:
        persistence(client, lambda: float("inf"), within=60)(Unavailable("WATCH /api/v1/nodes", 503))
