"""Certificates over time, on the embedded cluster: first start, rotation, broken Secrets, contested bundles."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from certs.consult import NoAnswerError, here
from certs.issue import Pair
from certs.layout import Holding
from certs.look import Answer as Advised
from certs.look import Question
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.kinds import MUTATING_WEBHOOKS, SECRETS
from ebbtide.sim.stored import Event, Object
from tests.certs.builders import self_signed
from tests.certs.world import NAMESPACE, SECRET, SECRET_PATH, SOMEBODY, World, configuration, play, settings
from tests.simulation.wiretap import Hook

ERRORS = ("error", "critical")
# What is logged of a look that may do better the next time.
FAILED = "reconcile failed, will be repeated"


def holding(world: World) -> Holding:
    assert world.found is not None
    return world.found.holding


def pair(slot: object) -> Pair:
    assert isinstance(slot, Pair)
    return slot


async def installed(world: World) -> None:
    """A leader and two replicas, with two configurations of which one has two entries."""
    world.cluster.create(
        configuration("pods", "pods.webhook.ebbtide", "namespaces.webhook.ebbtide"), configuration("sets")
    )
    world.lead()
    world.serve("webhook-0")
    world.serve("webhook-1")
    await world.until(world.served_everywhere, within=5)
    await asyncio.sleep(2)


def no_errors(logs: list[Any]) -> bool:
    return not [entry for entry in logs if entry["log_level"] in ERRORS]


def test_wh_43_a_first_start_makes_one_ca_and_one_leaf_and_publishes_it() -> None:
    """One create, one write for each configuration; then nothing more is written or even read."""

    async def story(world: World) -> None:
        await installed(world)
        assert [request.method for request in world.secret_writes()] == ["POST"]
        assert len(world.bundle_writes()) == 2
        before = len(world.journal.requests)
        await asyncio.sleep(120)
        assert [request.path for request in world.journal.requests[before:]] == []
        assert (world.step, world.most) == ("stable", 1)

    assert no_errors(play(story))


def test_nobody_is_asked_about_certificates_while_nothing_changes() -> None:
    """Answers take a process with cryptography in it: a look that finds all as it was does without."""

    async def story(world: World) -> None:
        await installed(world)
        asked = world.leaders[0].asked
        before = len(asked)
        await asyncio.sleep(20 * 3600)
        assert len(asked) == before
        world.garble(tls_key=b"garbage")
        await world.until(world.served_everywhere, within=5)
        assert before < len(asked) <= before + 3

    assert no_errors(play(story))


def test_who_cannot_be_consulted_is_asked_again() -> None:
    """A child that was killed costs a look and nothing else."""

    async def story(world: World) -> None:
        await installed(world)
        leader = world.leaders[0]

        async def fails(_question: Question) -> Advised:
            leader.consult = here
            raise NoAnswerError("killed")

        leader.consult = fails
        world.garble(tls_key=b"garbage")
        await world.until(world.served_everywhere, within=10)

    logs = play(story)
    assert no_errors(logs)
    assert [entry["error"] for entry in logs if entry["event"] == FAILED] == ["killed"]


def test_wh_44_five_that_start_at_once_end_with_one_ca() -> None:
    """Even where all five believe that they lead, one create succeeds and all serve leaves of that CA."""

    async def story(world: World) -> None:
        world.cluster.create(configuration("pods"))
        for number in range(5):
            world.lead(f"leader-{number}")
            world.serve(f"webhook-{number}")
        await world.until(world.served_everywhere, within=30)
        await asyncio.sleep(60)
        created = [r for r in world.secret_writes() if r.status == 201]
        assert len(created) == 1
        assert world.most == 1
        assert world.served_everywhere()

    assert no_errors(play(story))


def test_wh_45_a_conflict_is_decided_again() -> None:
    """The first update is refused with 409: read again, decided again, no more than three writes, no error told."""

    async def story(world: World) -> None:
        await installed(world)
        before = len(world.secret_writes())
        world.cluster.faults.inject(Answer(409, "Conflict"), When("PUT", f"{SECRET_PATH}/*", times=1))
        world.garble(tls_key=b"garbage")
        await world.until(world.served_everywhere, within=5)
        assert len(world.secret_writes()) - before <= 3

    assert no_errors(play(story))


def test_wh_46_a_ca_is_rotated_without_a_moment_of_distrust() -> None:
    """Both published, the overlap awaited, then leaves of the new one; the old one goes after its last leaf's end."""

    async def story(world: World) -> None:
        await installed(world)
        first = pair(holding(world).signer).certificate
        begun = world.now
        world.ask("ca")
        await world.until(lambda: world.step == "publishing", within=5)
        second = pair(holding(world).next).certificate
        await world.until(lambda: all(second.pem in bundle for bundle in world.bundles().values()), within=2)
        await world.until(lambda: world.step == "retiring", within=120)
        assert world.now - begun >= 60
        assert pair(holding(world).signer).certificate == second
        await world.until(world.served_everywhere, within=5)
        assert all(first.pem in bundle for bundle in world.bundles().values())
        await asyncio.sleep(3600)
        world.look()

    assert no_errors(play(story))


def test_wh_46_the_old_ca_goes_after_the_end_of_its_last_leaf() -> None:
    """Not when the rotation is over, but when nobody can serve a leaf of it any more."""

    async def story(world: World) -> None:
        await installed(world)
        last = pair(holding(world).leaf).certificate
        first = pair(holding(world).signer).certificate
        world.ask("ca")
        await world.until(lambda: world.step == "retiring", within=120)
        await world.until(lambda: world.step == "stable", within=4000)
        assert world.now >= last.not_after
        await world.until(world.served_everywhere, within=5)
        assert world.now < last.not_after + 120
        assert not any(first.pem in bundle for bundle in world.bundles().values())

    assert no_errors(play(story, leaf_lifetime=3600.0))


def test_wh_46_a_replica_that_does_not_know_the_new_ca_is_waited_for() -> None:
    """Five minutes at most: one that never tells must not hold the rotation up for ever."""

    async def story(world: World) -> None:
        await installed(world)
        deaf = world.replicas[0]
        deaf.task.cancel()
        begun = world.now
        world.ask("ca")
        await world.until(lambda: world.step == "publishing", within=5)
        await world.until(lambda: world.step == "retiring", within=400)
        assert 300 <= world.now - begun < 320

    play(story)


def test_certificates_are_renewed_at_two_thirds_of_their_lives() -> None:
    """A day of leaves that live an hour and CAs that live six: both come anew in time, and every call succeeds."""

    async def story(world: World) -> None:
        await installed(world)
        serials = set[int]()
        for _ in range(24 * 12):
            await asyncio.sleep(300)
            world.look()
            serials.add(pair(holding(world).leaf).certificate.serial)
        assert 30 <= len(serials) <= 50

    assert no_errors(play(story, leaf_lifetime=3600.0, ca_lifetime=6 * 3600.0))


@pytest.mark.parametrize("answered", [False, True], ids=["before it is stored", "after it is stored"])
@pytest.mark.parametrize("nth", range(7))
def test_wh_47_killed_at_any_write_of_a_rotation_the_next_leader_goes_on(nth: int, answered: bool) -> None:
    """Secret or caBundle: the rotation ends with the CA that it had begun with, if that was stored."""

    async def story(world: World) -> None:
        await installed(world)
        leader = world.leaders[0]
        writes = 0

        def strike(_request: object) -> None:
            nonlocal writes
            writes += 1
            if writes == nth + 1:
                leader.kill()

        for method, path in (("PUT", f"{SECRET_PATH}/*"), ("PATCH", "/apis/admissionregistration*")):
            world.journal.hooks.append(Hook(method, path, strike, answered, times=None))
        world.ask("ca")
        await asyncio.sleep(200)
        coming = holding(world).next
        world.lead("two")
        await world.until(lambda: world.step == "retiring", within=200)
        await world.until(world.served_everywhere, within=10)
        if isinstance(coming, Pair):
            assert pair(holding(world).signer) == coming
        assert holding(world).request == ""

    assert no_errors(play(story))


def delete(world: World) -> None:
    world.cluster.storage.delete(SECRETS, SECRET, NAMESPACE, Deletion())


BROKEN: dict[str, Callable[[World], None]] = {
    "empty": lambda world: world.change_secret({"data": None}),
    "garbage for the leaf": lambda world: world.garble(tls_crt=b"garbage"),
    "garbage for the leaf's key": lambda world: world.garble(tls_key=b"garbage"),
    "key of another certificate": lambda world: world.garble(tls_key=self_signed().key_pem),
    "garbage for the CA": lambda world: world.garble(ca_signer_crt=b"garbage"),
    "garbage for the CA's key": lambda world: world.garble(ca_signer_key=b"garbage"),
    "key of another CA": lambda world: world.garble(ca_signer_key=self_signed().key_pem),
    "garbage for everything": lambda world: world.garble(
        tls_crt=b"x", tls_key=b"x", ca_crt=b"x", ca_signer_crt=b"x", ca_signer_key=b"x"
    ),
    "deleted": delete,
}


@pytest.mark.parametrize("how", BROKEN)
def test_wh_48_a_broken_secret_is_mended_and_no_call_fails_meanwhile(how: str) -> None:
    """The pair before is served until the new one is trusted; a new replica is ready within 30 s."""

    async def story(world: World) -> None:
        await installed(world)
        BROKEN[how](world)
        late = world.serve("webhook-2")
        await world.until(lambda: late.served is not None, within=30)
        await world.until(world.served_everywhere, within=90)
        await asyncio.sleep(120)
        assert world.step in ("stable", "retiring")
        assert isinstance(holding(world).signer, Pair)

    assert no_errors(play(story))


def test_wh_48_expired_at_start() -> None:
    """CA and leaf have both ended while nobody led: new ones, within 30 s."""

    async def story(world: World) -> None:
        await installed(world)
        await world.leaders[0].close()
        for replica in tuple(world.replicas):
            await world.stop_serving(replica)
        await asyncio.sleep(7 * 3600)
        world.lead("two")
        late = world.serve("webhook-2")
        await world.until(lambda: late.served is not None and world.served_everywhere(), within=30)
        assert world.step == "stable"

    play(story, leaf_lifetime=3600.0, ca_lifetime=6 * 3600.0)


def test_wh_48_names_of_the_configuration_have_changed() -> None:
    """A new leaf, the same CA."""

    async def story(world: World) -> None:
        await installed(world)
        signer = holding(world).signer
        world.leaders[0].kill()
        world.settings = settings(extra_sans=["w.example.com"])
        world.lead("two")
        await world.until(lambda: "w.example.com" in pair(holding(world).leaf).certificate.names, within=5)
        assert holding(world).signer == signer

    assert no_errors(play(story))


def test_wh_48_a_secret_of_somebody_else_is_left_alone() -> None:
    """Told once, with its name; neither it nor any caBundle is written."""

    async def story(world: World) -> None:
        world.cluster.create(
            configuration("pods"),
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": SECRET, "namespace": NAMESPACE},
                "type": "Opaque",
                "data": {"tls.crt": b64encode(b"theirs").decode()},
            },
        )
        world.lead()
        replica = world.serve()
        await asyncio.sleep(200)
        assert world.secret_writes() == world.bundle_writes() == []
        assert replica.served is None
        assert replica.source.problem
        (event,) = world.journal.events("CertificateSecretForeign")
        assert event.document["regarding"]["name"] == SECRET

    logs = play(story)
    assert len([entry for entry in logs if entry["log_level"] in ERRORS]) == 1


def test_wh_51_a_wiped_bundle_is_back_within_five_seconds() -> None:
    """By server-side apply under the field manager of the certificates, with every other field as it was."""

    async def story(world: World) -> None:
        await installed(world)
        before = world.bundles()
        theirs = fields(world, "pods")
        for entry in (0, 1):
            world.set_bundle("pods", b"", entry)
            await world.until(lambda: world.bundles() == before, within=5)
        assert fields(world, "pods") == theirs
        held = world.cluster.storage.find(MUTATING_WEBHOOKS, "pods").ownership
        (ours,) = [owner for owner in held if owner.manager == "ebbtide-webhook-certs"]
        assert ours.operation == "Apply"
        assert {path[-1] for path in ours.paths} == {".", "f:name", "f:caBundle"}

    assert no_errors(play(story))


def test_wh_51_also_after_many_steps_in_a_row() -> None:
    """What a rotation and a broken Secret have published is not counted as a fight with another writer."""

    async def story(world: World) -> None:
        await installed(world)
        world.ask("ca")
        await world.until(lambda: world.step == "retiring", within=120)
        BROKEN["garbage for everything"](world)
        await world.until(lambda: world.step == "recovering", within=5)
        await world.until(lambda: world.step == "retiring" and world.served_everywhere(), within=120)
        before = world.bundles()
        for _ in range(3):
            world.set_bundle("pods", b"")
            await world.until(lambda: world.bundles() == before, within=5)

    assert no_errors(play(story))


def fields(world: World, name: str) -> Object:
    """All that is not about bundles and the server's own books."""
    body = world.cluster.storage.get(MUTATING_WEBHOOKS, name)
    for entry in body["webhooks"]:
        entry["clientConfig"].pop("caBundle", None)
    for key in ("resourceVersion", "generation"):
        body["metadata"].pop(key)
    return body


def test_an_entry_that_comes_later_gets_the_bundle_at_once() -> None:
    """As after an upgrade; a configuration without the label never does."""

    async def story(world: World) -> None:
        await installed(world)
        world.cluster.create(configuration("new"), configuration("foreign", labelled=False))
        await world.until(lambda: world.bundles()["new/pods.webhook.ebbtide"], within=5)
        await asyncio.sleep(60)
        assert world.bundles()["foreign/pods.webhook.ebbtide"] == b""

    assert no_errors(play(story))


def test_a_configuration_that_cannot_be_written_keeps_no_other_from_its_bundle() -> None:
    """As one of another release, which our role does not name; `sets` has the label, and comes after it."""

    async def story(world: World) -> None:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/foreign"
        world.cluster.faults.inject(Answer(403, "Forbidden", "not yours"), When(method="PATCH", path=path))
        world.cluster.create(configuration("foreign"), configuration("sets"))
        world.lead()
        await world.until(lambda: world.bundles()["sets/pods.webhook.ebbtide"], within=5)
        await asyncio.sleep(600)
        assert world.bundles()["foreign/pods.webhook.ebbtide"] == b""

    logs = play(story)
    assert no_errors(logs)
    assert [entry["error"] for entry in logs if entry["event"] == FAILED] == ["not yours"]


def test_wh_52_of_two_writers_we_give_way() -> None:
    """After five quick tries at most one write a minute, with one Warning; quick again when the fight is over."""

    async def story(world: World) -> None:
        await installed(world)
        theirs = self_signed().certificate.pem
        world.foreign |= {theirs}
        fighting = True

        def answer(event: Event) -> None:
            if fighting and event.stored.name == "sets" and world.bundles()["sets/pods.webhook.ebbtide"] != theirs:
                asyncio.get_running_loop().call_soon(world.set_bundle, "sets", theirs)

        world.cluster.storage.listen(answer, MUTATING_WEBHOOKS)
        world.set_bundle("sets", theirs)
        before = len(world.bundle_writes())
        await asyncio.sleep(10)
        assert len(world.bundle_writes()) - before <= 5
        before = len(world.bundle_writes())
        await asyncio.sleep(600)
        assert 5 <= len(world.bundle_writes()) - before <= 10
        (event,) = world.journal.events("BundleContested")
        assert event.document["regarding"]["name"] == "sets"
        fighting = False
        await world.until(world.served_everywhere, within=61)
        await asyncio.sleep(600)
        world.set_bundle("sets", b"", write=SOMEBODY)
        await world.until(world.served_everywhere, within=5)

    assert no_errors(play(story))


def test_a_leader_counts_what_it_keeps() -> None:
    """Until when leaf and CA are valid, and every leaf that took the place of another one."""

    async def story(world: World) -> None:
        await installed(world)
        registry = world.leaders[0].registry
        leaf = pair(holding(world).leaf).certificate
        assert registry.get_sample_value("certs_not_after_seconds", {"kind": "leaf"}) == leaf.not_after
        assert registry.get_sample_value("certs_rotations_total") == 0
        world.ask("leaf")
        await world.until(lambda: registry.get_sample_value("certs_rotations_total") == 1, within=5)
        assert registry.get_sample_value("certs_not_after_seconds", {"kind": "ca"})

    assert no_errors(play(story))


def test_nothing_of_a_key_is_ever_told() -> None:
    """Neither logs nor Events hold a line of PEM."""

    async def story(world: World) -> None:
        await installed(world)
        world.garble(tls_key=b"garbage")
        world.ask("ca")
        await world.until(lambda: world.step == "retiring", within=120)
        secrets = [pair(holding(world).leaf).key_pem, pair(holding(world).signer).key_pem]
        told.extend(secret.splitlines()[1].decode() for secret in secrets)
        for request in world.journal.requests:
            if "events" in request.path:
                assert not any(line.encode() in request.body for line in told)

    told: list[str] = []
    logs = play(story)
    assert told
    assert not any(line in repr(logs) for line in [*told, "PRIVATE KEY"])
