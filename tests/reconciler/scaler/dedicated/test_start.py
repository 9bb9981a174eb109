"""From the init request to the redirect, on the embedded cluster."""

import asyncio

import pytest

from ebbtide.sim.faults import Answer, When
from ebbtide.sim.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, STATEFUL_SETS
from reconciler.scaler.contract import Phase, Place, Target, Unavailable
from reconciler.scaler.resolving import RESOLVED_WITHIN
from tests.doubles.worker import Worker
from tests.reconciler.scaler.dedicated.stage import GIB, ID1, LARGE, NAME1, SERVICES_PATH, SETS, Stage, story, task
from tests.reconciler.scaler.templates import first_container, template

ADDRESS = f"http://{NAME1}.tidb-serverless.svc.cluster.local:19500"


@story()
async def test_ws_01_a_client_is_sent_to_the_worker_that_was_made_for_it(stage: Stage) -> None:
    process = stage.start()
    place = await process.place()
    assert place == Place(ID1, 7, Target.DEDICATED, ADDRESS)
    assert stage.names(SERVICES) == [NAME1]
    assert stage.names(PERSISTENT_VOLUME_CLAIMS) == [f"data-{NAME1}-0", f"worker0-{NAME1}-0"]
    assert stage.busy()
    assert process.dedicated.find(ID1) == place


@story(worker_address="pod-ip")
async def test_ws_01_by_address_where_clients_cannot_use_names(stage: Stage) -> None:
    stage.names_known = False
    place = await stage.start().place()
    assert place.address == f"http://{stage.pod()['status']['podIP']}:19500"


@story()
async def test_ws_16_service_and_claims_belong_to_the_set(stage: Stage) -> None:
    await stage.start().place()
    uid = stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"]
    kinds = {SERVICES: [NAME1], PERSISTENT_VOLUME_CLAIMS: [f"data-{NAME1}-0", f"worker0-{NAME1}-0"]}
    for kind, names in kinds.items():
        for name in names:
            owners = stage.body(kind, name)["metadata"]["ownerReferences"]
            assert [owner["uid"] for owner in owners] == [uid]
    assert stage.body(PERSISTENT_VOLUME_CLAIMS, f"worker0-{NAME1}-0")["spec"]["resources"] == {
        "requests": {"storage": "20Gi"}
    }


@story()
async def test_ws_17_each_worker_is_made_of_the_template_as_it_is_then(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    stage.patch(STATEFUL_SETS, "tikv-api", {"spec": {"template": {"spec": first_container(image="tikv:2")}}})
    before = stage.body(STATEFUL_SETS, NAME1)["metadata"]["generation"]
    await process.place(task(1))
    images = [stage.pod(f"{NAME1[:-1]}{n}")["spec"]["containers"][0]["image"] for n in (0, 1)]
    assert images == ["registry.example/tikv:1", "tikv:2"]
    assert stage.body(STATEFUL_SETS, NAME1)["metadata"]["generation"] == before


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        pytest.param(template(first_container(env=None))["spec"], "environment", id="no env"),
        pytest.param(template(volumeClaimTemplates=[])["spec"], "claims", id="no claims"),
        pytest.param(None, "no template", id="no such set"),
    ],
)
def test_ws_18_without_a_usable_template_clients_come_again_and_nothing_is_made(
    spec: dict[str, object] | None, word: str
) -> None:
    @story()
    async def told(stage: Stage) -> None:
        stage.remove(STATEFUL_SETS, "tikv-api")
        if spec is not None:
            stage.cluster.create({**template(), "spec": {**spec, "replicas": 0}})
        process = stage.start()
        with pytest.raises(Unavailable, match=word) as refused:
            await process.place()
        assert refused.value.code == "TemplateUnusable"
        await stage.until(lambda: stage.events("TemplateUnusable"))
        assert word in stage.events("TemplateUnusable")[0]
        assert stage.left() == []

    told()


@story()
async def test_ws_18_a_template_that_was_mended_is_used_at_once(stage: Stage) -> None:
    stage.remove(STATEFUL_SETS, "tikv-api")
    process = stage.start()
    with pytest.raises(Unavailable):
        await process.place()
    stage.cluster.create(template(replicas=0))
    assert (await process.place()).ready


@story()
async def test_ws_21_only_a_ready_pod_with_a_good_answer_gets_a_client(stage: Stage) -> None:
    def broken(worker: Worker) -> None:
        worker.refusing = 500

    stage.before = broken
    process = stage.start()
    asked = process.ask()
    await stage.until(lambda: stage.names(PODS) and stage.workers)
    assert not asked.done()
    await asyncio.sleep(30.0)
    assert not asked.done()
    found = process.dedicated.find(ID1)
    assert found is not None
    assert not found.ready
    stage.worker().refusing = 0
    assert await stage.until(asked.done) <= 2.0
    assert (await asked).place is not None


@story()
async def test_a_good_answer_from_before_the_pod_was_ready_is_not_enough(stage: Stage) -> None:
    process = stage.start()
    asked = process.ask()
    await stage.until(lambda: stage.workers)
    await asyncio.sleep(1.0)
    assert stage.worker().taken, "it is asked although it is not ready"
    stage.worker().refusing = 500
    await asyncio.sleep(10.0)
    assert not asked.done()
    stage.worker().refusing = 0
    await asked


@story(start_timeout=60)
async def test_ws_22_a_pod_that_does_not_exist_yet_is_waited_for(stage: Stage) -> None:
    stage.faults.inject(Answer(500), When(method="GET", path="*/pods", times=0))
    stage.no_room()
    process = stage.start()
    asked = process.ask()
    await asyncio.sleep(10.0)
    assert not asked.done()
    stage.room()
    assert (await asked).place is not None


@story()
async def test_ws_23_a_slow_start_is_joined_by_the_next_try(stage: Stage) -> None:
    stage.no_room()
    process = stage.start()
    first = await process.ask()
    assert first.refused is not None
    assert 299.0 <= first.at <= 301.5
    assert first.refused.code == "NoCapacity"
    made = stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"]
    second = process.ask()
    await asyncio.sleep(30.0)
    stage.room()
    assert (await second).place is not None
    assert stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"] == made
    assert stage.events("NoCapacity")


@story()
async def test_ws_23_a_client_that_hangs_up_does_not_stop_the_start(stage: Stage) -> None:
    process = stage.start()
    await process.ready()
    asked = process.ask()
    await asyncio.sleep(0)
    asked.cancel()
    await stage.until(lambda: process.state() == "ready")
    begun = stage.time
    await process.place()
    assert stage.time - begun <= 0.1


@story()
async def test_ws_13_many_waiters_of_one_task_are_one_worker(stage: Stage) -> None:
    process = stage.start()
    places = [(await asked).place for asked in [process.ask() for _ in range(50)]]
    assert len({place.address for place in places if place is not None}) == 1
    assert len(stage.journal.matching("POST", SETS)) == 1


@story()
async def test_ws_36_a_set_that_is_there_already_is_joined(stage: Stage) -> None:
    process = stage.start()
    await process.ready()
    stage.faults.inject(Answer(409, "AlreadyExists"), When(method="POST", path=SETS, times=1))
    other = stage.start("two")
    await other.place()
    uid = stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"]
    assert (await process.place()).ready
    assert stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"] == uid


@story()
async def test_a_set_of_somebody_else_with_that_name_is_left_alone(stage: Stage) -> None:
    stage.cluster.create({**template(replicas=0), "metadata": {"name": NAME1, "namespace": "tidb-serverless"}})
    with pytest.raises(Unavailable, match="is not that of its worker") as refused:
        await stage.start().place()
    assert refused.value.code == "NameTaken"
    assert stage.names(SERVICES) == []


@story()
async def test_a_service_of_somebody_else_with_that_name_is_left_alone(stage: Stage) -> None:
    metadata = {"name": NAME1, "namespace": "tidb-serverless"}
    ports = [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    stage.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})
    process = stage.start()
    with pytest.raises(Unavailable, match="somebody else's"):
        await process.place()
    assert "ownerReferences" not in stage.body(SERVICES, NAME1)["metadata"]


@story()
async def test_ws_37_a_set_on_its_way_out_is_waited_for(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    old = stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"]
    stage.patch(STATEFUL_SETS, NAME1, {"metadata": {"finalizers": ["example.com/hold"]}})
    stage.remove(STATEFUL_SETS, NAME1)
    await asyncio.sleep(1.0)
    assert process.dedicated.find(ID1) is None
    asked = process.ask()
    await asyncio.sleep(60.0)
    assert not asked.done()
    stage.patch(STATEFUL_SETS, NAME1, {"metadata": {"finalizers": None}})
    assert (await asked).place is not None
    assert stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"] != old
    assert stage.pod()["metadata"]["ownerReferences"][0]["uid"] != old


@story(start_timeout=60)
async def test_ws_37_a_set_that_does_not_go_is_503_in_the_end(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    stage.patch(STATEFUL_SETS, NAME1, {"metadata": {"finalizers": ["example.com/hold"]}})
    stage.remove(STATEFUL_SETS, NAME1)
    await asyncio.sleep(1.0)
    beat = await process.ask()
    assert beat.refused is not None
    assert "on its way out" in str(beat.refused)
    stage.patch(STATEFUL_SETS, NAME1, {"metadata": {"finalizers": None}})


@story()
async def test_ws_38_the_next_try_completes_what_a_quota_refused(stage: Stage) -> None:
    words = 'services "x" is forbidden: exceeded quota: few'
    stage.faults.inject(Answer(403, "Forbidden", words), When(method="POST", path=SERVICES_PATH, times=1))
    process = stage.start()
    with pytest.raises(Unavailable) as refused:
        await process.place()
    assert refused.value.code == "QuotaExceeded"
    await stage.until(lambda: stage.events("QuotaExceeded"))
    assert stage.sets() == [NAME1]
    assert (await process.place()).ready
    assert stage.names(SERVICES) == [NAME1]


@story()
async def test_ws_38_a_start_that_nobody_completes_goes_by_itself(stage: Stage) -> None:
    words = 'services "x" is forbidden: exceeded quota: few'
    quota = stage.faults.inject(Answer(403, "Forbidden", words), When(method="POST", path=SERVICES_PATH))
    stage.no_room()
    process = stage.start()
    with pytest.raises(Unavailable):
        await process.place()
    await stage.until(lambda: not stage.left(), within=950.0)
    assert stage.time >= 899.0
    assert quota.hits >= 2


@story()
async def test_a_name_that_dns_does_not_know_holds_a_client_back_for_seconds_only(stage: Stage) -> None:
    stage.names_known = False
    process = stage.start()
    asked = process.ask()
    await stage.until(lambda: process.metric("worker_scaler_status_failures_total", pool="dedicated") or stage.workers)
    await stage.until(lambda: any(worker.taken for worker in stage.workers.values()))
    await asyncio.sleep(4.0)
    assert not asked.done()
    found = process.dedicated.find(ID1)
    assert found is not None
    assert (found.ready, found.reason) == (False, "the name of its worker is not known to DNS yet")
    assert await stage.until(asked.done) <= RESOLVED_WITHIN
    begun = stage.time
    await process.place()
    assert stage.time == begun


@story()
async def test_the_name_of_a_pod_that_was_made_anew_is_waited_for_again(stage: Stage) -> None:
    """The Service has no address in between, and DNS remembers that."""
    process = stage.start()
    await process.place()
    stage.names_known = False
    before = stage.pod()["metadata"]["uid"]
    stage.remove(PODS, f"{NAME1}-0")
    await stage.until(lambda: f"{NAME1}-0" in stage.names(PODS) and stage.pod()["metadata"]["uid"] != before)
    asked = process.ask()
    await stage.until(lambda: (found := process.dedicated.find(ID1)) is not None and "DNS" in found.reason)
    await asyncio.sleep(4.0)
    assert not asked.done()
    stage.names_known = True
    assert await stage.until(asked.done) <= 1.0


@story()
async def test_a_worker_that_is_in_order_is_promised_again_without_any_request(stage: Stage) -> None:
    process = stage.start()
    place = await process.place()
    await asyncio.sleep(1.0)
    sent = len(stage.journal.requests)
    assert await process.place(size=900 * GIB) == place
    assert len(stage.journal.requests) == sent


@story()
async def test_what_is_told_of_a_task_on_its_way(stage: Stage) -> None:
    process = stage.start()
    asked = process.ask()
    await stage.until(stage.sets)
    await stage.until(process.dedicated.records)
    (record,) = process.dedicated.records()
    assert (record.task, record.cluster, record.phase, record.size) == (ID1, 7, Phase.WAITING, LARGE)
    found = process.dedicated.find(ID1)
    assert found is not None
    assert not found.ready
    await asked
    stage.worker().begin(str(ID1))
    await asyncio.sleep(11.0)
    (record,) = process.dedicated.records()
    assert (record.worker, record.phase) == (f"{NAME1}-0", Phase.RUNNING)
    assert record.seen is not None
    stage.worker().finish(str(ID1))
    await asyncio.sleep(11.0)
    (record,) = process.dedicated.records()
    assert record.phase is Phase.ENDED


@story()
async def test_ready_workers_are_counted_and_timed(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    await asyncio.sleep(0.5)
    assert process.metric("worker_scaler_workers", pool="dedicated", state="ready") == 1
    assert process.metric("worker_scaler_start_duration_seconds_count") == 1
    seconds = process.metric("worker_scaler_start_duration_seconds_sum")
    assert seconds is not None
    assert 5.0 <= seconds <= 7.0


@story()
async def test_a_dry_run_makes_nothing(stage: Stage) -> None:
    process = stage.start(dry_run=True)
    with pytest.raises(Unavailable, match="not been created"):
        await process.place()
    assert not stage.journal.deeds
