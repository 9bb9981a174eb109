"""Pods that are alike have one answer, and it is the one that each would have by itself."""

from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Around
from ebbtide.exclusion.zones import BlockedZones
from tests.ebbtide.exclusion.builders import G, Raw, blocked_zones, node_store, pod, raw_node
from tests.ebbtide.exclusion.test_laws import NODES
from tests.webhook.builders import Cluster, admitted, review
from tests.webhook.test_golden import CASES, SETTINGS, Case, named
from tests.webhook.test_laws import RULES, known, pods, unhurried
from webhook.alike import MOST, Alike, essence
from webhook.decide import Decision
from webhook.review import Request, encoded, read


def alike(raw: Raw, cluster: Any, rules: Any = RULES) -> tuple[Decision, str] | None:
    return Alike(cluster, rules).answer(read(orjson.dumps(review(raw))))


@pytest.mark.parametrize("case", [case for case in CASES if case.read("old") is None], ids=named)
def test_the_answer_is_what_every_golden_pod_has_by_itself(case: Case) -> None:
    """StatefulSets and pods with claims are looked at one by one."""
    raw, rules = case.read("in"), SETTINGS[case.rules]
    found = alike(raw, case.cluster, rules)
    if raw.get("kind") == "StatefulSet" or any("persistentVolumeClaim" in each for each in _volumes(raw)):
        assert found is None
    else:
        _, decision, patch = admitted(raw, None, case.cluster, rules)
        assert found == (decision, encoded(patch))


def _volumes(raw: Raw) -> list[Raw]:
    return list(raw["spec"].get("volumes") or ())


@unhurried
@given(pods(), NODES)
def test_and_any_other_pod(raw: Raw, nodes: list[Raw]) -> None:
    """Whatever it has, and in whichever cluster."""
    _, decision, patch = admitted(raw, None, known(nodes, []), RULES)
    assert alike(raw, known(nodes, [])) == (decision, encoded(patch))


def test_replicas_are_alike() -> None:
    """Whatever their names, numbers, images and volumes are, and whatever else is written on them."""
    one, other = pod(labels={vocabulary.GUARD_LABEL: "enabled"}), pod(labels={vocabulary.GUARD_LABEL: "enabled"})
    other["metadata"] |= {"name": "web-1", "uid": "u", "annotations": None}
    other["metadata"]["labels"] |= {"apps.kubernetes.io/pod-index": "1"}
    other["spec"] |= {"containers": [], "volumes": [{"name": "token-x7z", "projected": {}}]}
    assert essence(one) == essence(other)


@dataclass
class Changing:
    """A cluster of which something changes."""

    zones: Any
    guarded: bool = False

    def around(self, _namespace: str, _claims: Any) -> Around:
        return Around(self.guarded)


def zones_of(answer: tuple[Decision, str] | None) -> tuple[str, ...]:
    assert answer is not None
    return answer[0].exclusion.zones


def test_an_answer_holds_until_a_zone_changes() -> None:
    """From the very next request on there is another one."""
    store = node_store("a! a b c")
    index = BlockedZones(store, vocabulary.PREVENT_TAINT_KEY)
    cluster = Changing(index.groups)
    answers, request = Alike(cluster, RULES), read(orjson.dumps(review(pod())))
    first = answers.answer(request)
    assert zones_of(first) == ("a",)
    assert answers.answer(request) is first
    changed = raw_node("n2", "g", "b", prevented=True)
    changed["metadata"]["resourceVersion"] = "9"
    store.apply("MODIFIED", changed)
    cluster.zones = index.groups
    assert zones_of(answers.answer(request)) == ("a", "b")


def test_a_namespace_that_is_guarded_from_now_on_counts_from_now_on() -> None:
    cluster = Changing(blocked_zones("a! a b c").groups)
    answers, request = Alike(cluster, RULES), read(orjson.dumps(review(pod(labels={}))))
    assert zones_of(answers.answer(request)) == ()
    cluster.guarded = True
    assert zones_of(answers.answer(request)) == ("a",)


def of_group(number: int) -> Request:
    return read(orjson.dumps(review(pod(selector={G: f"g{number}"}))))


def test_those_that_came_last_are_remembered() -> None:
    """To come again counts too."""
    answers = Alike(Cluster(), RULES)
    first, second = answers.answer(of_group(1)), answers.answer(of_group(2))
    for number in range(3, MOST + 2):
        assert answers.answer(of_group(1)) is first
        answers.answer(of_group(number))
    assert answers.answer(of_group(1)) is first
    assert answers.answer(of_group(2)) is not second
    assert answers.answer(of_group(2)) == second


def test_a_pod_whose_essence_is_large_is_not_remembered() -> None:
    """Or a few hundred of them would take all the memory."""
    assert alike(pod(selector={"k": "v" * 7000}), Cluster()) is not None
    assert alike(pod(selector={"k": "v" * 9000}), Cluster()) is None


@pytest.mark.parametrize("changes", [{"operation": "UPDATE"}, {"subResource": "status"}, {"object": None}])
def test_what_is_no_new_pod_is_looked_at_by_itself(changes: Raw) -> None:
    assert Alike(Cluster(), RULES).answer(read(orjson.dumps(review(pod(), **changes)))) is None


def test_so_is_a_pod_with_a_number_that_is_too_long() -> None:
    """It is no reason not to decide."""
    body = orjson.dumps(review(pod(tolerations=[{"key": "k", "tolerationSeconds": 1}]))).replace(
        b":1}", b":" + b"9" * 30 + b"}"
    )
    assert Alike(Cluster(), RULES).answer(read(body)) is None


@pytest.mark.parametrize(
    "raw", [{"metadata": []}, {"metadata": {"labels": 1}}, {"metadata": {}, "spec": {"volumes": 1}}]
)
def test_a_wrong_type_is_an_error_here_too(raw: Raw) -> None:
    with pytest.raises(TypeError):
        alike(raw, Cluster())
