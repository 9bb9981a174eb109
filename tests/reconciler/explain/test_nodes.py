"""What is explained about zones, nodes and pods is what is decided about them, in words that name the reason."""

from typing import Any

import orjson
import pytest

from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, KubeError
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.time import simulate
from reconciler.explain.explanation import Explanation
from reconciler.explain.nodes import Explainer
from reconciler.inquiry import Inquiry
from tests.reconciler.explain.cases import (
    EMPTIED,
    NODES,
    STANDING,
    WAITING,
    ZONES,
    Ask,
    Case,
    fill,
    node,
    pod,
    stands,
    zone,
)


def explained(case: Case) -> Explanation:
    found: list[Explanation] = []

    async def main() -> None:
        async with Cluster() as cluster:
            fill(cluster, case)
            found.append(await asked(cluster, case.ask, **case.rebalance))

    simulate(main())
    return found[0]


async def asked(cluster: Cluster, ask: Ask, **rebalance: Any) -> Explanation:
    settings = Settings.model_validate({"node-rebalance": rebalance})
    async with Client(cluster.access(), field_manager="test", user_agent="test") as client:
        explanation = await ask(Explainer(Inquiry(client, settings, "ebbtide-system"), settings, cluster.clock))
        assert {verb.verb for verb in client.sent} == {"list"}
        return explanation


@pytest.mark.parametrize("case", [*ZONES, *NODES, *STANDING, *WAITING], ids=lambda case: case.name)
def test_an_explanation_says_what_is_decided_and_why(case: Case) -> None:
    """With nothing more than the permission to list."""
    found = orjson.loads(orjson.dumps(explained(case).document()))
    held = "\n".join(f"{each['what']}: {each['reason']}" for each in found["heldBack"])
    assert found["state"] == case.state
    assert all(words in found["reason"] for words in case.says), found["reason"]
    assert all(words in held for words in case.held), held
    assert found["plan"].items() >= case.plan.items()
    assert {key: found["facts"].get(key) for key in case.facts} == case.facts
    assert set(found) == {"subject", "state", "reason", "plan", "heldBack", "facts"}


@pytest.mark.parametrize("case", [*ZONES, *NODES, *STANDING, *WAITING], ids=lambda case: case.name)
def test_what_is_not_done_is_never_said_to_be_done(case: Case) -> None:
    """A pod that is held back for good is not in the plan."""
    found = explained(case)
    if found.facts.get("wouldStay") or not case.rebalance.get("run", True):
        assert not found.evict
        assert not found.taint


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (zone("b"), "there is no node in zone g/b; the nearest: g/a"),
        (node("a11"), "there is no node a11; the nearest: a1"),
        (node("zzz"), "there is no node zzz"),
        (pod("web"), "there is no pod default/web; the nearest: default/web-7d9f-x1"),
        (pod("p", "empty"), "there is no pod empty/p; namespace empty has no pods"),
    ],
)
def test_what_is_not_there_is_said_with_what_may_have_been_meant(ask: Ask, words: str) -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            fill(cluster, Case("", "a1, a2", ask, "", others=(stands(name="web-7d9f-x1"),)))
            with pytest.raises(EbbtideError) as raised:
                await asked(cluster, ask)
            assert str(raised.value) == words

    simulate(main())


def test_what_only_a_leader_knows_is_named() -> None:
    """Hold-down, the cached template, fights: an outsider can only say that they may matter."""
    by_name = {case.name: explained(case).facts["unknown"] for case in ZONES}
    assert "hold-down of 600 s" in by_name["hold-down"][0]
    assert "`cached`" in by_name["all cordoned"][0]
    assert "another program" in by_name["two signals"][0]
    assert "time stands nowhere" in by_name["two signals"][1]
    assert by_name["a block that holds"] == []


def test_budgets_that_may_not_be_listed_are_unknown_and_nothing_else_is_lost() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            fill(cluster, Case("", EMPTIED, pod("p"), "", others=(stands(),)))
            cluster.faults.inject(Answer(403, "Forbidden", "no"), When(path="*/poddisruptionbudgets"))
            found = await asked(cluster, pod("p"))
            assert found.evict
            assert "PodDisruptionBudget" in found.facts["unknown"][0]

    simulate(main())


def test_a_list_that_is_refused_ends_it_with_the_servers_words() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            fill(cluster, Case("", EMPTIED, pod("p"), ""))
            cluster.faults.inject(Answer(403, "Forbidden", "cannot list nodes"), When(path="/api/v1/nodes"))
            with pytest.raises(Forbidden, match="cannot list nodes"):
                await asked(cluster, zone("a"))

    simulate(main())


def test_a_list_that_is_compacted_away_is_begun_again() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            fill(cluster, Case("", EMPTIED, pod("p"), ""))
            gone = cluster.faults.inject(Answer(410, "Expired"), When(path="/api/v1/nodes", times=2))
            assert (await asked(cluster, zone("a"))).state == "blocked"
            assert gone.hits == 2
            cluster.faults.inject(Answer(410, "Expired"), When(path="/api/v1/nodes"))
            with pytest.raises(KubeError):
                await asked(cluster, zone("a"))

    simulate(main())
