"""Questions about certificates are answered by a child as by this process, or not at all; and it is gone afterwards."""

import asyncio
import os
import subprocess
import sys
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from certs.answer import answer
from certs.consult import Child, NoAnswerError, here
from certs.layout import Holding, body, read
from certs.look import Question, Step
from tests.certs.builders import NOW, SPEC, authority, publishing, recovering, retiring, stable
from tests.waiting import until

HOLDINGS = {"stable": stable(), "publishing": publishing(), "retiring": retiring(), "recovering": recovering()}
HANGING = "import time; time.sleep(600)"


def secret(holding: Holding) -> dict[str, Any]:
    made = body("tls", holding, None)
    return {**made, "metadata": {**made["metadata"], "uid": "u", "resourceVersion": "7"}}


def question(raw: dict[str, Any] | None, **changed: Any) -> Question:
    asked = {"bundles": (authority().certificate.pem,), "replicas": (), "injected_at": None, "spec": SPEC, "now": NOW}
    return Question("tls", raw, **{**asked, **changed})


def python(program: str, within: float = 30.0) -> Child:
    return Child((sys.executable, "-c", program), within)


def children() -> set[str]:
    """The processes that this one has started and not buried; proc(5): the parent stands behind name and state."""
    found = set[str]()
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            if each.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(each.parent.name)
    return found


@pytest.mark.parametrize("name", HOLDINGS)
async def test_a_child_answers_as_this_process_does(name: str) -> None:
    """Word for word, whatever the Secret holds, with what a caBundle holds that is none."""
    asked = question(secret(HOLDINGS[name]), bundles=(authority().certificate.pem, b"\xff no bundle"))
    assert await Child()(asked) == await here(asked) == answer(asked)


async def test_what_a_child_makes_is_what_was_asked_for() -> None:
    """A Secret with a CA and its leaf, after which nothing is due."""
    made = await Child()(question(None, bundles=()))
    assert made.step is Step.CREATE
    assert made.body is not None
    held = read({**made.body, "metadata": {**made.body["metadata"], "uid": "u", "resourceVersion": "7"}}).holding
    after = answer(question(secret(held), bundles=(held.listed,)))
    assert (after.step, after.bundle) == (Step.NOTHING, held.listed)


async def test_nothing_is_made_in_a_dry_run_or_before_the_replicas_are_known() -> None:
    """The step is told; keys that nobody stores are not drawn."""
    lost = secret(stable(signer=None))
    assert answer(question(lost, dry_run=True)).body is None
    unknown = answer(question(lost, replicas=None))
    assert (unknown.replicas_matter, unknown.body) == (True, None)
    assert answer(question(lost)).body is not None


async def test_a_child_imports_what_its_parent_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write into the directory that the program was started in must not come by keys."""
    for name in ("msgspec", "cryptography", "certs"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(tmp_path)
    asked = question(secret(stable()))
    assert await Child()(asked) == answer(asked)


async def test_a_child_that_hangs_is_killed() -> None:
    """After the time that it is given."""
    before = children()
    with pytest.raises(NoAnswerError, match=r"not looked at within 0\.2 s"):
        await python(HANGING, within=0.2)(question(None))
    assert children() == before


async def test_a_child_ends_with_who_has_asked() -> None:
    """A term that is over leaves no process behind."""
    before = children()
    asking = asyncio.ensure_future(python(HANGING)(question(None)))
    await until(lambda: children() != before, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert children() == before


async def test_a_child_that_is_killed_is_told_of() -> None:
    """As `kill -9`, or the kernel that is out of memory, does it."""
    with pytest.raises(NoAnswerError, match="ended with -9: no word"):
        await python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")(question(None))


async def test_a_child_that_says_something_else_is_not_believed_and_not_quoted() -> None:
    """It might be a key."""
    with pytest.raises(NoAnswerError) as caught:
        await python("print('a key')")(question(None))
    assert "key" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_child_that_cannot_be_started_is_told_of() -> None:
    """In the words of the system."""
    with pytest.raises(NoAnswerError, match="No such file"):
        await Child(("/nowhere/python",))(question(None))


async def test_a_defect_in_a_child_is_told_by_its_place_and_without_a_key() -> None:
    """What is asked holds keys, and messages of errors may quote what they are about."""
    key = b64encode(stable().leaf.key_pem).decode()  # type: ignore[union-attr]
    with pytest.raises(NoAnswerError, match=r"ended with 1: \w+Error at \w+, line \d+ of .*\.py$") as caught:
        await Child()(question({"metadata": {"name": "tls", "labels": key}, "data": {"tls.key": key}}))
    assert key not in str(caught.value)


def test_neither_questions_nor_answers_show_keys() -> None:
    """Not even in the picture that a failed assertion or a traceback makes of them."""
    asked = question(secret(stable(leaf=None)))
    for shown in (repr(asked), repr(answer(asked))):
        assert "tls.key" not in shown


def imported(module: str) -> set[str]:
    """The packages that an interpreter has after the import of that module."""
    program = f"import sys, {module}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in ran.stdout.split()}


def test_a_leader_has_no_cryptography_and_its_child_nothing_but_that() -> None:
    """The one takes 13 MB of every leader, the other would take 30 MB of every child."""
    assert "cryptography" not in imported("reconciler.main")
    assert not imported("certs.answer") & {"pydantic", "aiohttp", "structlog", "asyncio"}
