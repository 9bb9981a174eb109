"""`pods/eviction`, budgets, and `pods/binding`."""

import asyncio

import pytest

from ebbtide.sim import objects
from ebbtide.sim.kinds import NAMESPACES, PODS, STATEFUL_SETS
from tests.ebbtide.sim.talk import BUDGETS, Answer, Object, Talk, embedded, simulated
from tests.ebbtide.sim.talk import PODS as PATH

LABELS = {"app": "db"}


async def evict(talk: Talk, pod: Object) -> Answer:
    return await talk.post(f"{PATH}/{pod['metadata']['name']}/eviction", objects.eviction(pod))


def database(talk: Talk, *, replicas: int = 3, ready: int = 3) -> list[Object]:
    """A StatefulSet and its pods, some of them Ready."""
    (owner,) = talk.cluster.create(objects.stateful_set("db", replicas=replicas))
    return talk.cluster.create(
        *(
            objects.pod(f"db-{number}", node="n", labels=LABELS, owner=owner, ready=number < ready)
            for number in range(replicas)
        )
    )


@simulated
async def test_an_evicted_pod_goes_gracefully() -> None:
    """It is 201, marked with the reason, and waits for its kubelet."""
    async with embedded() as talk:
        pod = database(talk)[0]
        answer = await evict(talk, pod)
        assert (answer.code, answer.body["status"], answer.body["code"]) == (201, "Success", 201)
        live = talk.cluster.storage.get(PODS, "db-0", "default")
        assert live["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
        assert live["status"]["conditions"][-1]["type"] == "DisruptionTarget"


@simulated
async def test_only_the_pod_that_is_meant() -> None:
    """Another UID is 409, a pod that is not there 404, another name in the body 400."""
    async with embedded() as talk:
        pod = database(talk)[0]
        other = objects.changed(pod, {"metadata": {"uid": "other"}})
        answer = await evict(talk, other)
        assert answer.refusal() == (409, "Conflict")
        assert "does not match the UID in record" in answer.body["message"]
        absent = objects.changed(pod, {"metadata": {"name": "absent"}})
        assert (await evict(talk, absent)).refusal() == (404, "NotFound")
        answer = await talk.post(f"{PATH}/db-0/eviction", objects.eviction(absent))
        assert answer.refusal() == (400, "BadRequest")
        assert "deletionTimestamp" not in talk.cluster.storage.get(PODS, "db-0", "default")["metadata"]


@pytest.mark.parametrize(
    ("least", "most", "ready", "accepted"),
    [
        (2, None, 3, 1),
        (3, None, 3, 0),
        ("50%", None, 3, 1),
        ("100%", None, 3, 0),
        (None, 0, 3, 0),
        (None, 1, 3, 1),
        (None, 2, 3, 2),
        (None, "34%", 3, 2),
        (None, 1, 2, 0),
        (0, None, 3, 3),
    ],
)
@simulated
async def test_a_budget_allows_so_many(
    least: int | str | None, most: int | str | None, ready: int, accepted: int
) -> None:
    """Of three pods' evictions, one after the other, those Ready that the budget can spare are accepted."""
    async with embedded() as talk:
        pods = database(talk, ready=ready)
        talk.cluster.create(objects.budget("b", match=LABELS, min_available=least, max_unavailable=most))
        answers = [await evict(talk, pod) for pod in pods[:ready]]
        assert [answer.code for answer in answers] == [201] * accepted + [429] * (ready - accepted)


@simulated
async def test_a_budget_that_refuses_says_so() -> None:
    """429 with the cause by which it is told from throttling, and without `Retry-After`."""
    async with embedded() as talk:
        pods = database(talk)
        talk.cluster.create(objects.budget("b", match=LABELS, max_unavailable=0))
        answer = await evict(talk, pods[0])
        assert answer.refusal() == (429, "TooManyRequests")
        assert answer.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        (cause,) = answer.body["details"]["causes"]
        assert cause["reason"] == "DisruptionBudget"
        assert cause["message"] == "The disruption budget b needs 3 healthy pods and has 3 currently"
        assert "Retry-After" not in answer.headers


@simulated
async def test_a_budget_over_some_pods_of_a_set_counts_the_whole_set() -> None:
    """`maxUnavailable: 0` over a label that one pod carries holds that pod, and no other."""
    async with embedded() as talk:
        pods = database(talk)
        talk.cluster.create(objects.budget("b", match={"guard": "yes"}, max_unavailable=0))
        await talk.merge(f"{PATH}/db-1", {"metadata": {"labels": {"guard": "yes"}}})
        assert (await evict(talk, pods[1])).refusal() == (429, "TooManyRequests")
        assert (await evict(talk, pods[0])).code == 201


@simulated
async def test_a_budget_frees_itself_when_the_set_recovers() -> None:
    """Once the evicted pod is back and Ready, the next may go."""
    async with embedded() as talk:
        pods = database(talk)
        talk.cluster.create(objects.budget("b", match=LABELS, max_unavailable=1))
        assert (await evict(talk, pods[0])).code == 201
        assert (await evict(talk, pods[1])).code == 429
        await talk.delete(f"{PATH}/db-0", {"gracePeriodSeconds": 0})
        owner = talk.cluster.storage.get(STATEFUL_SETS, "db", "default")
        talk.cluster.create(objects.pod("db-0", node="m", labels=LABELS, owner=owner))
        assert (await evict(talk, pods[1])).code == 201


@simulated
async def test_pods_without_a_controller_have_no_share() -> None:
    """A budget relative to what controllers want allows none of them to go, one of an absolute number does."""
    async with embedded() as talk:
        (pod,) = talk.cluster.create(objects.pod("lone", node="n", labels=LABELS))
        talk.cluster.create(objects.budget("b", match=LABELS, max_unavailable=1))
        answer = await evict(talk, pod)
        assert answer.refusal() == (429, "TooManyRequests")
        text = "The disruption budget b does not allow evicting pods currently"
        assert answer.body["details"]["causes"][0]["message"] == text
        await talk.delete(f"{BUDGETS}/b")
        talk.cluster.create(objects.budget("b", match=LABELS, min_available=0))
        assert (await evict(talk, pod)).code == 201


@simulated
async def test_a_controller_that_is_not_known_stops_the_count() -> None:
    """The budget refuses and says why."""
    async with embedded() as talk:
        (claim,) = talk.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "no-controller"}})
        (pod,) = talk.cluster.create(objects.pod("lone", node="n", labels=LABELS, owner=claim))
        talk.cluster.create(objects.budget("b", match=LABELS, max_unavailable=1))
        (cause,) = (await evict(talk, pod)).body["details"]["causes"]
        assert cause["message"].endswith('because it failed sync: found no controllers for pod "lone"')


@pytest.mark.parametrize(
    ("policy", "ready", "code"),
    [("", 2, 429), ("IfHealthyBudget", 2, 429), ("AlwaysAllow", 2, 201), ("", 3, 201)],
)
@simulated
async def test_unhealthy_pods(policy: str, ready: int, code: int) -> None:
    """One that is not Ready may go while the budget is met without it, or when the budget says always."""
    async with embedded() as talk:
        pods = database(talk, replicas=4, ready=ready)
        budget = objects.budget("b", match=LABELS, min_available=3)
        if policy:
            budget["spec"]["unhealthyPodEvictionPolicy"] = policy
        talk.cluster.create(budget)
        assert (await evict(talk, pods[3])).code == code


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
@simulated
async def test_pods_that_a_budget_does_not_protect(phase: str) -> None:
    """What does not run disrupts nobody."""
    async with embedded() as talk:
        pods = database(talk)
        talk.cluster.create(objects.budget("b", match=LABELS, max_unavailable=0))
        await talk.merge(f"{PATH}/db-0/status", {"status": {"phase": phase}})
        assert (await evict(talk, pods[0])).code == 201


@simulated
async def test_a_pod_under_two_budgets_cannot_be_evicted() -> None:
    """500, in the words by which it is known; no reason."""
    async with embedded() as talk:
        pods = database(talk)
        talk.cluster.create(*(objects.budget(name, match=LABELS, max_unavailable=3) for name in ("a", "b")))
        answer = await evict(talk, pods[0])
        assert answer.refusal() == (500, "")
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        assert answer.body["message"] == text


@simulated
async def test_a_namespace_that_is_going() -> None:
    """Eviction is 403 with cause NamespaceTerminating."""
    async with embedded() as talk:
        pods = database(talk)
        talk.cluster.storage.delete(NAMESPACES, "default")
        answer = await evict(talk, pods[0])
        assert answer.refusal() == (403, "Forbidden")
        assert answer.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"


@simulated
async def test_a_dry_run_asks_the_budget_only() -> None:
    """Nothing is marked or deleted."""
    async with embedded() as talk:
        pods = database(talk)
        version = talk.cluster.storage.version
        assert (await talk.post(f"{PATH}/db-0/eviction?dryRun=All", objects.eviction(pods[0]))).code == 201
        assert talk.cluster.storage.version == version


@simulated
async def test_the_status_of_a_budget_follows() -> None:
    """Whoever reads it sees how many may go."""
    async with embedded() as talk:
        pods = database(talk)
        talk.cluster.create(objects.budget("b", match=LABELS, max_unavailable=1))
        await asyncio.sleep(1)
        status = (await talk.get(f"{BUDGETS}/b")).body["status"]
        counts = {"expectedPods": 3, "currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1}
        assert status.items() >= counts.items()
        await evict(talk, pods[0])
        await asyncio.sleep(1)
        status = (await talk.get(f"{BUDGETS}/b")).body["status"]
        assert (status["disruptionsAllowed"], status["conditions"][0]["reason"]) == (0, "InsufficientPods")


@simulated
async def test_binding() -> None:
    """A pod is put on a node once, if it is the one that is meant."""
    async with embedded() as talk:
        pod = (await talk.post(PATH, objects.pod("p"))).body
        binding = {"metadata": {"name": "p", "uid": "other"}, "target": {"kind": "Node", "name": "n"}}
        assert (await talk.post(f"{PATH}/p/binding", binding)).refusal() == (409, "Conflict")
        binding["metadata"] = {"name": "p", "uid": pod["metadata"]["uid"]}
        assert (await talk.post(f"{PATH}/p/binding", binding)).code == 201
        assert (await talk.get(f"{PATH}/p")).body["spec"]["nodeName"] == "n"
        assert (await talk.post(f"{PATH}/p/binding", binding)).refusal() == (409, "Conflict")
