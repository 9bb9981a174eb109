"""`ebbtide certs`: files and Secret by hand, what is said and what it exits with."""

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from certs import files
from certs.by_hand import ByHand
from certs.check import Served, check
from certs.main import main
from certs.watch import read_directory
from ebbtide.errors import EbbtideError, UsageError
from ebbtide.kube.client import Client
from ebbtide.sim.kinds import LEASES
from ebbtide.sim.stored import Object
from tests.certs.builders import NOW, SPEC, self_signed
from tests.certs.world import NAMESPACE, SECRET, World, configuration, play

FILES = ["ca.crt", "ca.key", "tls.crt", "tls.key"]


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_are_a_pair_that_can_be_served_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    """All four or none, mode 0600 whatever the umask, nothing else left in the directory."""
    folder = tmp_path / "made"
    files.issue(folder, SPEC, NOW, force=False)
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert isinstance(check(read_directory(folder), SPEC, NOW), Served)


def test_a_file_that_cannot_be_replaced_is_named(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").mkdir()
    with pytest.raises(EbbtideError, match=rf"^{tmp_path}/tls\.crt: Is a directory$"):
        files.issue(tmp_path, SPEC, NOW, force=True)


def test_files_that_are_there_are_not_overwritten_unless_forced(tmp_path: Path) -> None:
    """The message names them and the flag."""
    files.issue(tmp_path, SPEC, NOW, force=False)
    before = (tmp_path / "tls.crt").read_bytes()
    with pytest.raises(UsageError, match=r"tls\.crt.*--force"):
        files.issue(tmp_path, SPEC, NOW, force=False)
    assert (tmp_path / "tls.crt").read_bytes() == before
    files.issue(tmp_path, SPEC, NOW, force=True)
    assert (tmp_path / "tls.crt").read_bytes() != before


def test_nothing_is_replaced_before_all_is_written(tmp_path: Path) -> None:
    """A write that fails half way leaves the files before, and no rest of its own."""
    files.write(tmp_path, {"tls.key": b"old", "tls.crt": b"old"})
    with pytest.raises(OSError, match="missing"):
        files.write(tmp_path, {"tls.key": b"new", "missing/tls.crt": b"new"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"tls.key": b"old", "tls.crt": b"old"}


def test_the_command_issues_and_inspects_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 for sound ones, 1 with the fault for others, 2 for what would be overwritten; no cluster is needed."""
    where = ["--directory", str(tmp_path)]
    assert main(["issue", *where]) == 0
    assert main(["inspect", *where, "--output", "json"]) == 0
    out = capsys.readouterr().out
    document = json.loads(out[out.index("{") :])
    assert [row["role"] for row in document["certificates"]] == ["leaf", "ca"]
    assert document["faults"] == []
    assert main(["issue", *where]) == 2
    (tmp_path / "tls.key").write_bytes(self_signed().key_pem)
    assert main(["inspect", *where]) == 1
    assert "another certificate" in capsys.readouterr().out


def test_a_directory_that_is_not_there_cannot_be_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A message, and exit code 1."""
    assert main(["inspect", "--directory", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


# --- the Secret -----------------------------------------------------------------------------------------------------

Use = Callable[[World, ByHand, list[str]], Awaitable[None]]


def by_hand(use: Use) -> None:
    """Plays with a cluster that has one configuration, and a hand in it."""

    async def story(world: World) -> None:
        world.cluster.create(configuration("pods"))
        async with Client(world.cluster.access(), field_manager="ebbtide-certs", user_agent="hand") as client:
            told: list[str] = []
            await use(world, ByHand(client, world.settings, NAMESPACE, world.cluster.clock), told)

    play(story)


def test_a_secret_is_issued_where_there_is_none_and_published() -> None:
    """As the leader would; a second time it is refused."""

    async def use(world: World, hand: ByHand, told: list[str]) -> None:
        await hand.issue(told.append, force=False)
        assert world.served_everywhere()
        with pytest.raises(UsageError, match="--force"):
            await hand.issue(told.append, force=False)
        before = world.found
        await hand.issue(told.append, force=True)
        assert world.found is not None
        assert before is not None
        assert world.found.holding.signer == before.holding.signer
        assert world.found.holding.leaf != before.holding.leaf

    by_hand(use)


@pytest.mark.parametrize(("what", "step"), [("leaf", "stable"), ("ca", "retiring")])
def test_where_nobody_leads_a_rotation_is_done_from_here(what: str, step: str) -> None:
    """To its end, with overlap and all, and no call fails."""

    async def use(world: World, hand: ByHand, told: list[str]) -> None:
        await hand.issue(told.append, force=False)
        world.serve()
        await world.until(world.served_everywhere)
        before = world.found
        await hand.rotate(what, told.append)
        assert world.found is not None
        assert before is not None
        assert world.found.holding.leaf != before.holding.leaf
        assert world.step == step
        assert any("nobody leads" in line for line in told)
        await world.until(world.served_everywhere)

    by_hand(use)


LEASE: Object = {
    "apiVersion": LEASES.api_version,
    "kind": LEASES.kind,
    "metadata": {"name": "ebbtide-reconciler", "namespace": NAMESPACE},
    "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 0},
}


def test_a_leader_is_asked_and_waited_for() -> None:
    """The hand writes the request and nothing else."""

    async def use(world: World, hand: ByHand, told: list[str]) -> None:
        world.lead()
        await world.until(world.served_everywhere)
        world.cluster.create(LEASE)

        async def renew() -> None:
            for number in range(1, 1000):
                await asyncio.sleep(2)
                body = world.cluster.storage.get(LEASES, "ebbtide-reconciler", NAMESPACE)
                body["spec"]["leaseTransitions"] = number
                world.cluster.storage.update(LEASES, body)

        renewing = asyncio.ensure_future(renew())
        await hand.rotate("ca", told.append)
        renewing.cancel()
        assert world.step == "retiring"
        assert any("one leads" in line for line in told)

    by_hand(use)


def test_a_secret_of_somebody_else_is_never_touched() -> None:
    """Neither rotated nor replaced by force."""

    async def use(world: World, hand: ByHand, told: list[str]) -> None:
        theirs = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "type": "Opaque",
        }
        world.cluster.create(theirs)
        for act in (hand.issue(told.append, force=True), hand.rotate("ca", told.append)):
            with pytest.raises(EbbtideError, match="not made by ebbtide"):
                await act
        found = await hand.inspect()
        assert found.step == "foreign"
        assert found.faults

    by_hand(use)


def test_what_is_wrong_is_inspected_with_its_place() -> None:
    """The leaf, and the entry that does not trust it; nothing that is only due."""

    async def use(world: World, hand: ByHand, told: list[str]) -> None:
        assert (await hand.inspect()).faults == ("there is no Secret",)
        await hand.issue(told.append, force=False)
        assert (await hand.inspect()).faults == ()
        world.set_bundle("pods", self_signed().certificate.pem)
        (fault,) = (await hand.inspect()).faults
        assert fault.startswith("pods/pods.webhook.ebbtide")
        world.garble(tls_key=b"garbage")
        assert any("tls.key" in fault for fault in (await hand.inspect()).faults)

    by_hand(use)


def test_rotate_wants_to_know_what(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as for every unusable argument."""
    with pytest.raises(SystemExit) as ended:
        main(["rotate"])
    assert ended.value.code == 2
    assert "--ca" in capsys.readouterr().err
