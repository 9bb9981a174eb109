"""The whole clean-up on an embedded cluster, with simulated time: leaders, conflicts, faults, interruptions."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from ebbtide.cleanup.act import Account
from ebbtide.cleanup.report import counts, document, interrupted, lines, succeeded
from ebbtide.cleanup.sweep import Options, Result, clean, rules_of
from ebbtide.config import Settings
from ebbtide.errors import ClusterAccessError, EbbtideError, UsageError
from ebbtide.kube import lease_record
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, NotFound, Unreachable
from ebbtide.kube.lease_record import Claim
from ebbtide.kube.resources import LEASES, NODES, PODS
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, Delay, Drop, When
from ebbtide.sim.time import simulate

HOME = "ebbtide-system"
LEASE = "ebbtide-reconciler"
SIGNAL = objects.taint("aws-node-termination-handler/rebalance-recommendation", "x")
FOREIGN = objects.taint("team", "x")
PREVENT = objects.taint("ebbtide/prevent-ca-scale-up", "1772366000")
SEEN = "ebbtide/rebalance-signal-first-seen"


@dataclass
class Scene:
    """A cluster with three marked nodes, a marked pod, and a lease that nobody holds any more."""

    cluster: Cluster
    client: Client
    account: Account = field(default_factory=Account)
    told: list[str] = field(default_factory=list)

    async def clean(self, *, dry_run: bool = False, forced: bool = False, settings: Settings | None = None) -> Result:
        chosen = settings or Settings()
        self.account = Account()
        options = Options(dry_run, forced, self.told.append)
        return await clean(self.client, chosen, rules_of(chosen), options, self.account)

    async def taints(self, node: str) -> list[str]:
        return [taint["key"] for taint in (await self.client.get(NODES, node))["spec"].get("taints", [])]

    async def marked(self) -> list[str]:
        """Names of the nodes that still have something of ours."""
        nodes, _ = await self.client.list_all(NODES)
        return [raw["metadata"]["name"] for raw in nodes if "ebbtide/" in str(raw)]

    async def hold(self, identity: str, namespace: str = HOME, duration: int = 15) -> None:
        """Takes, or renews, the lease."""
        claim = Claim(identity, duration, {})
        try:
            before = lease_record.read(await self.client.get(LEASES, LEASE, namespace=namespace), 15)
        except NotFound:
            record = claim.first(LEASE, self.cluster.clock.now())
            await self.client.create(LEASES, lease_record.body(record), namespace=namespace)
        else:
            record = claim.held(before, self.cluster.clock.now())
            await self.client.replace(LEASES, LEASE, lease_record.body(record), namespace=namespace)

    async def renewing(self, identity: str, namespace: str = HOME) -> None:
        while True:
            await self.hold(identity, namespace)
            await asyncio.sleep(2)


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    """Runs a story in a scene of its own, on simulated time."""

    async def main() -> None:
        async with (
            Cluster() as cluster,
            Client(cluster.access(), field_manager="test", user_agent="test") as client,
        ):
            cluster.create(objects.namespace(HOME), objects.namespace("elsewhere"))
            for name in ("a1", "a2"):
                cluster.create(objects.node(name, group="g", zone="a", taints=[FOREIGN, PREVENT, SIGNAL]))
            stray = objects.changed(objects.node("stray", taints=[PREVENT]), {"spec": {"unschedulable": True}})
            cluster.create(objects.changed(stray, {"metadata": {"annotations": {SEEN: "2026-01-01T00:00:00Z"}}}))
            cluster.create(objects.node("clean", group="g", zone="b", taints=[FOREIGN]))
            await story(Scene(cluster, client))

    simulate(main())


async def writes_of(scene: Scene) -> int:
    return sum(n for verb, n in scene.client.sent.items() if verb.verb in ("patch", "delete", "update"))


def test_everything_of_ours_goes_and_a_second_run_writes_nothing() -> None:
    """NR-61, and NR-15 for the node outside of any group."""

    async def story(scene: Scene) -> None:
        await scene.hold("")
        pod = {"metadata": {"name": "p", "annotations": {"ebbtide/blocked-zones": "a", "b": "c"}}}
        await scene.client.create(
            PODS, {**pod, "spec": {"containers": [{"name": "x", "image": "x"}]}}, namespace="default"
        )
        await scene.clean()
        assert succeeded(scene.account)
        assert await scene.marked() == []
        assert await scene.taints("a1") == ["team", SIGNAL["key"]]
        assert (await scene.client.get(NODES, "stray"))["spec"]["unschedulable"] is True
        assert (await scene.client.list_all(LEASES))[0] == []
        assert counts(scene.account.removed) == {
            "nodeTaints": 3,
            "nodeAnnotations": 1,
            "podAnnotations": 1,
            "leases": 1,
        }
        assert (await scene.client.get(PODS, "p", namespace="default"))["metadata"]["annotations"] == {"b": "c"}

        before = await writes_of(scene)
        result = await scene.clean()
        assert await writes_of(scene) == before
        assert next(lines(result, scene.account, dry_run=False)) == "nothing to remove"

    play(story)


def test_a_dry_run_lists_and_writes_nothing() -> None:
    async def story(scene: Scene) -> None:
        result = await scene.clean(dry_run=True)
        assert await writes_of(scene) == 0
        said = document(result, scene.account, dry_run=True)
        assert said["counts"] == {"nodeTaints": 3, "nodeAnnotations": 1}
        assert [each["name"] for each in said["objects"]] == ["a1", "a2", "stray"]
        assert [kept["what"].split()[0] for kept in said["leftAlone"]] == ["signal", "cordon"]
        assert "would remove 3 prevent taints from nodes" in list(lines(result, scene.account, dry_run=True))

    play(story)


@pytest.mark.parametrize("namespace", [HOME, "elsewhere"])
def test_while_a_reconciler_leads_it_refuses_wherever_that_is(namespace: str) -> None:
    """The Lease moves: whoever renews it would put everything back."""

    async def story(scene: Scene) -> None:
        renewing = asyncio.ensure_future(scene.renewing("ebbtide-0", namespace))
        await asyncio.sleep(1)
        with pytest.raises(EbbtideError, match=f"ebbtide-0 keeps renewing lease {namespace}/{LEASE}.*--force"):
            await scene.clean()
        assert len(await scene.marked()) == 3
        dry = await scene.clean(dry_run=True)
        assert any("ebbtide-0 leads" in line for line in lines(dry, scene.account, dry_run=True))
        renewing.cancel()

    play(story)


def test_by_force_it_goes_on() -> None:
    async def story(scene: Scene) -> None:
        renewing = asyncio.ensure_future(scene.renewing("ebbtide-0"))
        await asyncio.sleep(1)
        result = await scene.clean(forced=True)
        assert await scene.marked() == []
        assert any("it may put marks back" in line for line in lines(result, scene.account, dry_run=False))
        renewing.cancel()

    play(story)


@pytest.mark.parametrize(("duration", "waits"), [(15, 15), (40, 40)])
def test_the_lease_of_a_dead_leader_is_watched_for_its_own_duration(duration: int, waits: int) -> None:
    """`kill -9` releases nothing; the holder is believed to live for as long as candidates believe it."""

    async def story(scene: Scene) -> None:
        await scene.hold("ebbtide-0", duration=duration)
        begun = asyncio.get_running_loop().time()
        await scene.clean()
        assert waits <= asyncio.get_running_loop().time() - begun < waits + 2
        assert await scene.marked() == []
        assert (await scene.client.list_all(LEASES))[0] == []

    play(story)


def test_an_annotation_on_a_dead_lease_is_no_renewal() -> None:
    async def story(scene: Scene) -> None:
        await scene.hold("ebbtide-0")

        async def annotate() -> None:
            await asyncio.sleep(5)
            await scene.client.patch_merge(LEASES, LEASE, {"metadata": {"annotations": {"a": "b"}}}, namespace=HOME)

        other = asyncio.ensure_future(annotate())
        await scene.clean()
        await other
        assert await scene.marked() == []

    play(story)


def test_a_released_lease_is_not_waited_for() -> None:
    async def story(scene: Scene) -> None:
        await scene.hold("")
        begun = asyncio.get_running_loop().time()
        await scene.clean()
        assert asyncio.get_running_loop().time() - begun < 5

    play(story)


def test_a_reconciler_that_starts_meanwhile_keeps_its_lease_and_is_told_of() -> None:
    """The Lease is deleted only as it was seen: not once somebody has taken it."""

    async def story(scene: Scene) -> None:
        await scene.hold("")
        scene.cluster.faults.inject(Delay(before=3), When("PATCH", "/api/v1/nodes/a1", times=1))
        cleaning = asyncio.ensure_future(scene.clean())
        await asyncio.sleep(1)
        await scene.hold("ebbtide-1")
        result = await cleaning
        assert not succeeded(scene.account)
        assert [str(at) for at, _ in scene.account.failed] == [f"Lease {HOME}/{LEASE}"]
        assert any("ebbtide-1 holds it now" in line for line in lines(result, scene.account, dry_run=False))
        assert len((await scene.client.list_all(LEASES))[0]) == 1

    play(story)


def test_what_somebody_puts_back_is_told_of() -> None:
    """A reconciler that no Lease tells of, say: the exit code is not 0, and nobody is left in the belief."""

    async def story(scene: Scene) -> None:
        async def put_back() -> None:
            while True:
                await asyncio.sleep(0.01)
                if "ebbtide/prevent-ca-scale-up" not in await scene.taints("a1"):
                    await scene.client.patch_json(
                        NODES, "a1", [{"op": "add", "path": "/spec/taints/-", "value": PREVENT}]
                    )

        other = asyncio.ensure_future(put_back())
        scene.cluster.faults.inject(Delay(before=1), When("GET", "/api/v1/nodes"))
        result = await scene.clean()
        other.cancel()
        assert not succeeded(scene.account)
        assert any(
            line.startswith("STILL MARKED") and "a1" in line for line in lines(result, scene.account, dry_run=False)
        )

    play(story)


def test_a_node_that_others_keep_writing_is_cleaned_all_the_same() -> None:
    """409 after 409: read again and decide again, and what the others have written stays."""

    async def story(scene: Scene) -> None:
        async def busy() -> None:
            for number in range(12):
                labels = {"metadata": {"labels": {"busy": str(number)}}}
                await scene.client.patch_merge(NODES, "a1", labels)
                if number == 5:
                    first = [{"op": "add", "path": "/spec/taints/0", "value": objects.taint("late", "1")}]
                    await scene.client.patch_json(NODES, "a1", first)
                await asyncio.sleep(0.05)

        scene.cluster.faults.inject(
            Delay(before=0.06), When("PATCH", "/api/v1/nodes/a1", user_agent="cleanup", times=8)
        )
        async with Client(scene.cluster.access("cleanup"), field_manager="test", user_agent="cleanup") as own:
            chosen = Settings()
            options = Options(False, False, scene.told.append)
            writer = asyncio.ensure_future(busy())
            await clean(own, chosen, rules_of(chosen), options, scene.account)
            await writer
        assert succeeded(scene.account)
        assert await scene.taints("a1") == ["late", "team", SIGNAL["key"]]
        assert (await scene.client.get(NODES, "a1"))["metadata"]["labels"]["busy"] == "11"

    play(story)


@pytest.mark.parametrize(
    "fault",
    [Answer(409), Answer(422), Answer(500), Answer(503), Answer(429, retry_after=1), Drop(), Drop(processed=True)],
)
def test_a_fault_now_and_then_is_got_over(fault: Answer | Drop) -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.faults.inject(fault, When("PATCH", "/api/v1/nodes/*", times=4))
        await scene.clean()
        assert succeeded(scene.account)
        assert await scene.marked() == []
        assert counts(scene.account.removed)["nodeTaints"] == 3

    play(story)


def test_a_fault_that_stays_is_told_with_the_object_and_the_others_are_cleaned() -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.faults.inject(Answer(500, message="etcd is unwell"), When("PATCH", "/api/v1/nodes/a1"))
        result = await scene.clean()
        assert not succeeded(scene.account)
        assert await scene.marked() == ["a1"]
        said = list(lines(result, scene.account, dry_run=False))
        assert any(line.startswith("FAILED Node a1: ") and "etcd is unwell" in line for line in said)

    play(story)


def test_a_server_that_goes_away_ends_it_soon() -> None:
    """Not after half a minute for each of a thousand nodes."""

    async def story(scene: Scene) -> None:
        for number in range(200):
            scene.cluster.create(objects.node(f"n{number}", taints=[PREVENT]))
        scene.cluster.faults.inject(Drop(), When("PATCH"))
        begun = asyncio.get_running_loop().time()
        with pytest.raises(Unreachable):
            await scene.clean()
        assert asyncio.get_running_loop().time() - begun < 120

    play(story)


def test_a_permission_that_is_missing_is_named() -> None:
    """Where access reviews are allowed nothing is begun; a refusal in the middle ends it as well."""

    async def story(scene: Scene) -> None:
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        scene.cluster.faults.inject(Answer(403), When("POST", reviews))
        scene.cluster.faults.inject(Answer(403), When("GET", "/api/v1/pods"))
        with pytest.raises(ClusterAccessError, match=r"not permitted to: list pods \(to find"):
            await scene.clean()

    async def refused_late(scene: Scene) -> None:
        scene.cluster.faults.inject(
            Answer(403, message='cannot patch resource "nodes"'), When("PATCH", "/api/v1/nodes/a1")
        )
        with pytest.raises(Forbidden, match='cannot patch resource "nodes"'):
            await scene.clean()

    play(story)
    play(refused_late)


def test_an_interrupted_run_says_how_far_it_came_and_the_next_ends_it() -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.faults.inject(Delay(before=30), When("PATCH", "/api/v1/nodes/stray"))
        cleaning = asyncio.ensure_future(scene.clean())
        await asyncio.sleep(5)
        cleaning.cancel()
        await asyncio.wait([cleaning])
        assert interrupted(scene.account) == "interrupted: 2 of 3 objects are clean; run it again for the rest"
        await scene.clean()
        assert await scene.marked() == []
        assert len(scene.account.removed) == 1

    play(story)


def test_an_earlier_key_goes_when_it_is_named_and_the_default_one_always() -> None:
    """After a change of the key in the configuration, taints under the old one stand until they are cleaned up."""

    async def story(scene: Scene) -> None:
        old, new = objects.taint("old/key", "1"), objects.taint("new/key", "1772366000")
        scene.cluster.create(objects.node("b1", taints=[old, PREVENT, new]))
        settings = Settings.model_validate({"node-rebalance": {"prevent-ca-scale-up-taint-key": "new/key"}})
        await scene.clean(settings=settings)
        assert await scene.taints("b1") == ["old/key"]
        options = Options(False, False, scene.told.append)
        await clean(scene.client, settings, rules_of(settings, ["old/key"]), options, scene.account)
        assert await scene.taints("b1") == []

    play(story)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "not a taint key"),
        ("a b", "not a taint key"),
        ("a/b/c", "not a taint key"),
        ("ebbtide/prevent-ca-scale-up:NoSchedule", "not a taint key"),
        ("raised/here", "the signal's key"),
        ("aws-node-termination-handler/rebalance-recommendation", "the signal's key"),
        ("node.kubernetes.io/unschedulable", "belong to Kubernetes"),
        ("node-role.kubernetes.io/control-plane", "belong to Kubernetes"),
        ("kubernetes.io/arch", "belong to Kubernetes"),
        ("scheduling.k8s.io/x", "belong to Kubernetes"),
        ("ToBeDeletedByClusterAutoscaler", "belongs to the Cluster Autoscaler"),
    ],
)
def test_a_key_that_is_never_ours_is_refused(key: str, why: str) -> None:
    settings = Settings.model_validate({"node-rebalance": {"rebalance-signal-taint-key": "raised/here"}})
    with pytest.raises(UsageError, match=f"--taint-key {re.escape(repr(key))}: .*{why}"):
        rules_of(settings, ["old/key", key])


@pytest.mark.parametrize("key", ["old", "old.example.com/key", "mykubernetes.io/key"])
def test_any_other_key_may_have_been_ours(key: str) -> None:
    assert key in rules_of(Settings(), [key]).taint_keys


def test_writes_at_once_are_bounded() -> None:
    async def story(scene: Scene) -> None:
        for number in range(100):
            scene.cluster.create(objects.node(f"n{number}", taints=[PREVENT]))
        scene.cluster.faults.inject(Delay(before=1), When("PATCH"))
        begun = asyncio.get_running_loop().time()
        await scene.clean()
        # 103 nodes, 16 at a time, a second each.
        assert asyncio.get_running_loop().time() - begun >= 7
        assert await scene.marked() == []

    play(story)
