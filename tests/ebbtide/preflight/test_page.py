"""`docs/preflight.md` says what the code does: which checks there are, and what has to be permitted."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.preflight.decide import decide
from ebbtide.preflight.snapshot import Asked, read
from ebbtide.preflight.unread import Unread
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.time import simulate
from tests.ebbtide.preflight.builders import GOOD, NOW, programs, settings, workload
from tests.ebbtide.preflight.test_registered import WORKING, furnish
from webhook.probe import ask

PAGE = (Path(__file__).parents[3] / "docs" / "preflight.md").read_text(encoding="utf-8")


def rows(first: str) -> list[list[str]]:
    """The cells of the table with that head, code without its marks."""
    table = PAGE.partition(f"| {first} |")[2].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    assert lines
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_every_check_is_named_in_the_order_in_which_they_are_told() -> None:
    agent = programs(workload("x/ebbtide:1", "agent"), "DaemonSet", None)
    facts = replace(GOOD, programs=GOOD.programs + agent)
    told = [finding.check for finding in decide(facts, settings(), NOW)]
    assert [row[0] for row in rows("check")] == list(dict.fromkeys(told))


def test_what_is_used_is_what_is_named() -> None:
    """On a cluster where there is something of everything to look at."""

    async def main() -> set[str]:
        async with (
            Cluster() as cluster,
            Client(cluster.access(), field_manager="test", user_agent="test") as client,
        ):
            furnish(cluster, *WORKING)
            await read(client, Settings(), Asked(client, "test", ()), partial(ask, client, Settings(), within=0))
            # Dry runs are no verbs of the client's.
            creations = {("create", "pods", "")} if await refused(cluster, client) else set()
            return {_words(*each) for each in {(v.verb, v.resource, v.group) for v in client.sent} | creations}

    assert simulate(main()) == {f"{verb} {resource}" for verb, resource, _ in rows("to")}


async def refused(cluster: Cluster, client: Client) -> bool:
    """Whether the answer is unknown where no pod may be created."""
    cluster.faults.inject(Answer(403), When("POST", "/api/v1/namespaces/default/pods"))
    facts = await read(client, Settings(), Asked(client, "test", ()), partial(ask, client, Settings(), within=0))
    assert not isinstance(facts.registered, Unread)
    return isinstance(facts.registered.answer, Unread)


def _words(verb: str, resource: str, group: str) -> str:
    return f"{verb} {resource}.{group}" if group else f"{verb} {resource}"
