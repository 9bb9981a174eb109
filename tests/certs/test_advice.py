"""What was answered is not asked again as long as it is still true."""

from dataclasses import dataclass, field, replace
from typing import Any

from certs.answer import answer
from certs.look import Answer, Question, Step
from certs.rotate import Advice
from certs.seen import Replica
from tests.certs.builders import DAY, NOW, publishing, stable
from tests.certs.test_consult import question, secret


@dataclass
class Oracle:
    """Counts the times at which it is asked."""

    asked: list[float] = field(default_factory=list)

    async def __call__(self, asked: Question) -> Answer:
        self.asked.append(asked.now)
        return answer(asked)


async def test_the_same_question_is_asked_once() -> None:
    """Until the time that its answer has foretold, and no earlier than when it was given: clocks are set back, too."""
    oracle = Oracle()
    advice = Advice(oracle)
    asked = question(secret(stable()))
    until = (await advice.ask(asked)).until
    for now in (NOW + 60, NOW + 3600, until - 1):
        assert (await advice.ask(replace(asked, now=now))).step is Step.NOTHING
    assert oracle.asked == [NOW]
    await advice.ask(replace(asked, now=until))
    await advice.ask(replace(asked, now=NOW + 60))
    assert oracle.asked == [NOW, until, NOW + 60]


async def test_a_remembered_answer_is_looked_at_again_when_it_ends() -> None:
    """Not a minute later."""
    advice = Advice(Oracle())
    asked = question(secret(stable()))
    until = (await advice.ask(asked)).until
    assert (await advice.ask(replace(asked, now=until - 7))).again == 7


async def test_another_question_is_asked() -> None:
    """Whatever differs: the Secret, a caBundle, a replica, what was injected."""
    oracle = Oracle()
    advice = Advice(oracle)
    first = question(secret(publishing(published_at=NOW)), now=NOW + 1)
    changes: dict[str, Any] = {
        "secret": secret(publishing()),
        "bundles": (b"",),
        "replicas": (Replica("w-0", frozenset(), ""),),
        "injected_at": NOW,
        "now": NOW + DAY,
    }
    for name, value in changes.items():
        await advice.ask(first)
        before = len(oracle.asked)
        await advice.ask(replace(first, **{name: value}))
        assert len(oracle.asked) == before + 1, name


async def test_a_question_without_replicas_and_one_with_them_are_remembered_side_by_side() -> None:
    """A look asks first the one, then the other."""
    oracle = Oracle()
    advice = Advice(oracle)
    known = question(secret(publishing(published_at=NOW)), now=NOW + 1)
    for _ in range(3):
        assert (await advice.ask(replace(known, replicas=None))).replicas_matter
        assert (await advice.ask(known)).step is Step.NOTHING
    assert len(oracle.asked) == 2


async def test_keys_that_were_made_are_not_remembered() -> None:
    """A write that fails is asked for anew, and draws other keys."""
    oracle = Oracle()
    advice = Advice(oracle)
    lost = question(secret(stable(leaf=None)))
    made = [(await advice.ask(lost)).body for _ in range(2)]
    assert len(oracle.asked) == 2
    assert made[0] != made[1]
