"""Waiting pods are admitted again: the whole reconciler on the embedded cluster, with an admission webhook and a
controller that makes new pods."""

import asyncio
from collections.abc import Callable, Coroutine
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Around, Rules, exclude
from ebbtide.exclusion.pod import pod_traits
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.client import Client
from ebbtide.kube.resources import NAMESPACES
from ebbtide.kube.resources import PODS as PODS_API
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, node_facts
from ebbtide.sim import objects
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.storage import Write
from ebbtide.sim.stored import Event, Object
from ebbtide.sim.writes import Admission
from tests.ebbtide.exclusion.injector import injected
from tests.simulation.guarded import WEBHOOK
from tests.simulation.stage import Stage, play
from tests.simulation.wiretap import EVENT_PATH, Request

POD_PATH = "/api/v1/namespaces/*/pods/*"
GUARDED = {vocabulary.GUARD_LABEL: "enabled"}
SELECTOR = {vocabulary.NODE_GROUP_LABEL: "g"}


class Scene:
    """A stage with a webhook in the write path, and a controller that replaces each of its pods as it goes."""

    def __init__(self, stage: Stage, client: Client) -> None:
        self.stage = stage
        self.webhook_runs = True
        self._client = client
        self._making: set[asyncio.Task[Object]] = set()
        self._templates: dict[str, Object] = {}
        self._count = 0
        stage.cluster.api.writes.admit = self._admit
        stage.storage.listen(self._changed, PODS)

    def install_webhook(self) -> None:
        self.stage.cluster.create(WEBHOOK)

    async def pods(self, count: int, owner: str = "web", **patch: Any) -> None:
        """Waiting pods of an owner, made by way of the API like all of their successors."""
        if owner not in self._templates:
            made = self.stage.cluster.create(objects.replica_set(owner, replicas=count))[0]
            plain = objects.pod("x", labels={**GUARDED, "app": owner}, owner=made)
            del plain["status"], plain["metadata"]["name"]
            plain["metadata"]["generateName"] = f"{owner}-"
            plain["spec"]["nodeSelector"] = dict(SELECTOR)
            self._templates[owner] = objects.changed(plain, patch)
        for _ in range(count):
            await self._client.create(PODS_API, self._templates[owner], namespace="default")

    def names(self, owner: str = "web") -> list[str]:
        return [pod.name for pod in self.stage.storage.scan(PODS) if pod.body["metadata"]["labels"].get("app") == owner]

    def exclusions(self, owner: str = "web") -> list[str]:
        """What our annotation says on each of the owner's pods."""
        pods = (pod.body for pod in self.stage.storage.scan(PODS))
        return [
            (pod["metadata"].get("annotations") or {}).get(vocabulary.BLOCKED_ZONES_ANNOTATION, "")
            for pod in pods
            if pod["metadata"]["labels"].get("app") == owner
        ]

    @property
    def deletions(self) -> list[Request]:
        """Deletions of pods that replicas asked for."""
        return [r for r in self.stage.journal.requests if r.method == "DELETE" and fnmatchcase(r.path, POD_PATH)]

    @property
    def done(self) -> list[float]:
        """When deletions were accepted."""
        return [request.time for request in self.deletions if request.status == 200]

    async def _admit(self, admission: Admission) -> Object:
        if not self.webhook_runs or admission.operation != "CREATE" or admission.target.kind is not PODS:
            return admission.new
        labels = CellLabels()
        nodes = Store(lambda raw: node_facts(raw, labels))
        listed = nodes.gather()
        for node in self.stage.storage.scan(NODES):
            listed.apply("ADDED", node.body)
        nodes.swap(listed, 1)
        zones = BlockedZones(nodes, vocabulary.PREVENT_TAINT_KEY).groups
        return injected(admission.new, exclude(pod_traits(admission.new, labels), zones, Around(), Rules()))

    def _changed(self, event: Event) -> None:
        pod = event.stored
        template = self._templates.get(pod.body["metadata"]["labels"].get("app", ""))
        if event.type == "DELETED" and template is not None:
            making = asyncio.ensure_future(self._client.create(PODS_API, template, namespace="default"))
            self._making.add(making)
            making.add_done_callback(self._making.discard)


Story = Callable[[Stage, Scene], Coroutine[Any, Any, None]]


def readmission(story: Story, **settings: Any) -> None:
    """Plays a story in which zone a of group g stays blocked by two signals, and b and c are open."""

    async def played(stage: Stage) -> None:
        stage.nodes("a1 S(10s) P", "a2 S(10s) P", "b1", "c1")
        access = stage.cluster.access("workloads")
        async with Client(access, field_manager="workloads", user_agent="workloads") as client:
            scene = Scene(stage, client)
            await story(stage, scene)

    play(played, timings=None, **settings)


async def before_the_block(stage: Stage, scene: Scene, count: int, owner: str = "web", **patch: Any) -> None:
    """Pods that were created while no webhook kept them out of anything."""
    scene.webhook_runs = False
    await scene.pods(count, owner, **patch)
    scene.webhook_runs = True


def test_wh_59_a_pod_from_before_the_block_is_deleted_once_and_comes_back_with_the_exclusion() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 1)
        uid = stage.storage.get(PODS, scene.names()[0], "default")["metadata"]["uid"]
        stage.start()
        await stage.until(lambda: scene.exclusions() == ["a"], within=10)
        await asyncio.sleep(1200)
        assert len(scene.deletions) == 1
        assert scene.deletions[0].document["preconditions"]["uid"] == uid
        assert len(stage.journal.events("PodReadmitted")) == 1

    readmission(story)


def test_wh_60_a_pod_whose_zone_is_open_again_is_deleted_once_and_comes_back_without() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await scene.pods(1)
        assert scene.exclusions() == ["a"]
        stage.start()
        await asyncio.sleep(60)
        assert scene.deletions == []
        stage.calm("a1", "a2")
        await stage.until(lambda: scene.exclusions() == [""], within=10)
        await asyncio.sleep(1200)
        assert len(scene.deletions) == 1

    readmission(story)


def test_wh_59_a_zone_that_is_blocked_later_is_followed_as_soon_as_it_has_settled() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await scene.pods(2)
        stage.start()
        await asyncio.sleep(60)
        stage.signal("b1")
        stage.join("b2 S(10s)")
        took = await stage.until(lambda: scene.exclusions() == ["a,b", "a,b"], within=15)
        assert took > 3
        assert len(scene.done) == 2

    readmission(story)


def kept(name: str, **patch: Any) -> Any:
    return pytest.param(patch, id=name)


@pytest.mark.parametrize(
    "patch",
    [
        kept("bound", spec={"nodeName": "b1"}),
        kept("not opted in", metadata={"labels": {vocabulary.GUARD_LABEL: None}}),
        kept("opted out", metadata={"labels": {vocabulary.GUARD_LABEL: "disabled"}}),
        kept("no controller", metadata={"ownerReferences": None}),
        kept("tolerates the block", spec={"tolerations": [{"operator": "Exists"}]}),
        kept("gated", spec={"schedulingGates": [{"name": "quota"}]}),
        kept("another group", spec={"nodeSelector": {vocabulary.NODE_GROUP_LABEL: "h"}}),
    ],
)
def test_wh_61_other_pods_are_left_alone(patch: dict[str, Any]) -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 1, "web", **patch)
        stage.start()
        await asyncio.sleep(900)
        assert scene.deletions == []

    readmission(story)


def test_wh_61_a_pod_that_is_terminating_or_ran_before_is_left_alone() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 1, "held", metadata={"finalizers": ["example.com/held"]})
        stage.storage.delete(PODS, scene.names("held")[0], "default")
        scene.webhook_runs = True
        await before_the_block(stage, scene, 1, "ran")
        statuses = [{"name": "app", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": {}}]
        name = scene.names("ran")[0]
        began = {"status": {"containerStatuses": statuses}}
        stage.storage.modify(
            PODS, name, "default", lambda body: objects.changed(body, began), Write(subresource="status")
        )
        stage.start()
        await asyncio.sleep(900)
        assert scene.deletions == []

    readmission(story)


def test_wh_62_at_most_five_go_in_any_second_and_all_of_them_do() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        for owner in ("one", "two", "three"):
            await before_the_block(stage, scene, 20, owner)
        stage.start()
        owners = ("one", "two", "three")
        await stage.until(lambda: all(scene.exclusions(owner) == ["a"] * 20 for owner in owners), within=20)
        assert len(scene.deletions) == len(scene.done) == 60
        for begin in scene.done:
            assert sum(begin <= other < begin + 1 for other in scene.done) <= 5

    readmission(story)


def test_wh_62_a_deletion_that_was_held_up_by_throttling_is_not_made_up_for() -> None:
    """As the API server sees it; the client waits with everything while it is told to."""

    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        owners = ("one", "two", "three", "four")
        for owner in owners:
            await before_the_block(stage, scene, 5, owner)
        stage.faults.inject(Answer(429, retry_after=5), When("POST", EVENT_PATH, times=1))
        stage.start()
        await stage.until(lambda: all(scene.exclusions(owner) == ["a"] * 5 for owner in owners), within=60)
        assert len(scene.done) == 20
        for begin in scene.done:
            assert sum(begin <= other < begin + 1 for other in scene.done) <= 5

    readmission(story)


def test_wh_62_an_owner_whose_pods_come_back_unchanged_is_tried_ever_more_slowly_and_said_so_once() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        scene.webhook_runs = False
        await scene.pods(3)
        stage.start()
        await asyncio.sleep(4 * 3600)
        gaps = [round(later - earlier) for earlier, later in zip(scene.done, scene.done[1:], strict=False)]
        assert gaps[:8] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
        warnings = stage.journal.events("ReadmissionWithoutEffect")
        assert len(warnings) == 1
        assert scene.done[2] <= warnings[0].time < scene.done[3]
        assert stage.replicas[0].metric("readmission_without_effect_total") == len(scene.done)
        assert stage.replicas[0].metric("readmission_waiting_pods", reason="back-off") == 3

    readmission(story)


def test_wh_62_back_to_full_speed_as_soon_as_one_comes_back_right() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        scene.webhook_runs = False
        await scene.pods(10)
        stage.start()
        await stage.until(lambda: len(scene.done) == 4, within=600)
        scene.webhook_runs = True
        await stage.until(lambda: len(scene.done) == 5, within=481)
        await stage.until(lambda: scene.exclusions() == ["a"] * 10, within=5)

    readmission(story)


def test_wh_62_one_owner_without_effect_does_not_slow_another() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 5, "good")
        await before_the_block(stage, scene, 5, "odd")
        scene._templates["odd"]["spec"]["affinity"] = {"nodeAffinity": {}}
        admit = stage.cluster.api.writes.admit

        async def all_but_odd(admission: Admission) -> Object:
            odd = admission.new["metadata"].get("labels", {}).get("app") == "odd"
            return admission.new if odd else await admit(admission)

        stage.cluster.api.writes.admit = all_but_odd
        stage.start()
        await stage.until(lambda: scene.exclusions("good") == ["a"] * 5, within=8)
        await asyncio.sleep(50)
        assert len(scene.done) == 6

    readmission(story)


def test_nothing_is_deleted_while_no_webhook_is_there_and_everything_once_it_is() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        await before_the_block(stage, scene, 5)
        one = stage.start()
        await asyncio.sleep(900)
        assert scene.deletions == []
        assert one.metric("readmission_waiting_pods", reason="no-webhook") == 5
        scene.install_webhook()
        await stage.until(lambda: scene.exclusions() == ["a"] * 5, within=8)
        assert one.metric("readmission_waiting_pods", reason="no-webhook") == 0

    readmission(story)


def test_a_pod_that_the_scheduler_binds_meanwhile_is_not_deleted() -> None:
    """The deletion is on its way when the pod gets its node: it must not arrive."""

    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 1)
        name = scene.names()[0]
        uid = stage.storage.get(PODS, name, "default")["metadata"]["uid"]
        stage.on("DELETE", POD_PATH, lambda _: stage.storage.bind("default", name, "b1", uid))
        stage.start()
        await stage.until(lambda: scene.deletions, within=10)
        await asyncio.sleep(600)
        assert scene.names() == [name]
        assert [deletion.status for deletion in scene.deletions] == [409]

    readmission(story)


def test_the_schedulers_repeated_refusals_stop_nothing() -> None:
    """Each of them makes a new version of the pod, in which nothing that counts has changed."""

    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 1)
        one = stage.start()
        await stage.until(lambda: one.leads)
        for number in range(3):
            refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": str(number)}
            refused = partial(objects.changed, patch={"status": {"conditions": [refusal]}})
            stage.storage.modify(PODS, scene.names()[0], "default", refused, Write(subresource="status"))
            await asyncio.sleep(0.5)
        await stage.until(lambda: scene.exclusions() == ["a"], within=10)
        assert [deletion.status for deletion in scene.deletions] == [200]

    readmission(story)


def test_a_namespace_that_is_guarded_later_brings_its_pods_in() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        namespace = {"metadata": {"labels": {vocabulary.GUARD_LABEL: "enabled"}}}
        await before_the_block(stage, scene, 1, metadata={"labels": {vocabulary.GUARD_LABEL: None}})
        stage.start()
        await asyncio.sleep(600)
        assert scene.deletions == []
        async with Client(stage.cluster.access("admin"), field_manager="admin", user_agent="admin") as client:
            await client.patch_merge(NAMESPACES, "default", namespace)
        await stage.until(lambda: scene.done, within=5)

    readmission(story)


@pytest.mark.parametrize("answered", [False, True])
def test_a_leader_that_is_killed_at_a_deletion_is_followed_by_one_that_ends_the_work(answered: bool) -> None:
    """Whether or not the deletion got through, no pod is left behind and no UID is deleted twice."""

    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 4)
        one = stage.start("one")
        await stage.until(lambda: one.leads)
        stage.start("two")
        stage.on("DELETE", POD_PATH, lambda _: one.kill(), answered=answered, skip=1)
        await stage.until(lambda: scene.exclusions() == ["a"] * 4, within=60)
        assert {deletion.who for deletion in scene.deletions} == {"one", "two"}
        await asyncio.sleep(600)
        accepted = [deletion.document["preconditions"]["uid"] for deletion in scene.deletions if deletion.status == 200]
        assert len(accepted) == len(set(accepted))
        assert len(scene.names()) == 4

    readmission(story)


def test_only_the_leader_deletes() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 20)
        stage.start("one")
        stage.start("two")
        await stage.until(lambda: scene.exclusions() == ["a"] * 20, within=20)
        assert len({deletion.who for deletion in scene.deletions}) == 1
        assert len(scene.deletions) == 20

    readmission(story)


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again_later(code: int) -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 3)
        stage.faults.inject(Answer(code), When("DELETE", POD_PATH, times=2))
        stage.start()
        await stage.until(lambda: scene.exclusions() == ["a"] * 3, within=240)

    readmission(story)


def test_a_dry_run_deletes_nothing() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 3)
        one = stage.start(dry_run=True)
        await asyncio.sleep(600)
        assert scene.deletions == []
        assert one.metric("readmission_waiting_pods", reason="next") == 3

    readmission(story)


def test_a_role_without_the_permission_is_told_so_and_zones_are_blocked_all_the_same() -> None:
    async def story(stage: Stage, scene: Scene) -> None:
        scene.install_webhook()
        await before_the_block(stage, scene, 1)
        stage.faults.inject(Answer(403, "Forbidden"), When("DELETE", POD_PATH))
        one = stage.start()
        stage.join("a3")
        await stage.until(lambda: stage.prevented("a3"))
        await asyncio.sleep(900)
        assert one.leads
        assert 1 < len(scene.deletions) < 30
        assert one.metric("readmission_deletions_total", result="forbidden") == len(scene.deletions)

    readmission(story)
