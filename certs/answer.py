"""The answer to a look. Pure but for the keys that are drawn.

`main` is the child of `certs.consult`, by which who looks once a minute needs no cryptography of its own.
"""

import sys
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec

from certs import layout
from certs.decide import Decision, Facts, decide, replicas_matter, same_until
from certs.inspect import bundle, readable
from certs.issue import Pair
from certs.layout import Found, Holding
from certs.look import WAITS, Answer, Question
from certs.steps import carried_out


def answer(question: Question) -> Answer:
    """The next step of what is there, and where it changes the Secret, what to store."""
    found = None if question.secret is None else layout.read(question.secret)
    facts = Facts(
        holding=None if found is None else found.holding,
        ours=found is None or found.ours,
        live=tuple(readable(each, "caBundle") for each in question.bundles),
        replicas=question.replicas or (),
        injected_at=question.injected_at,
    )
    decision = decide(facts, question.spec, question.now)
    matter = replicas_matter(facts)
    changes = decision.step not in WAITS and not question.dry_run and (question.replicas is not None or not matter)
    ours = found.holding if found is not None and found.ours else Holding()
    return Answer(
        step=decision.step,
        why=decision.why,
        again=decision.again,
        until=same_until(facts, question.spec, question.now),
        replicas_matter=matter,
        body=_body(question, decision, found) if changes else None,
        bundle=bundle(ours.authorities),
        leaf_ends=ours.leaf.certificate.not_after if isinstance(ours.leaf, Pair) else None,
        authority_ends=max((each.not_after for each in ours.authorities), default=None),
    )


def main() -> int:
    """Reads one question from standard input and writes its answer to standard output; returns the exit code.

    What goes wrong is told by its place alone: a message might quote a key.
    """
    try:
        question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
        sys.stdout.buffer.write(msgspec.json.encode(answer(question)))
        sys.stdout.buffer.flush()
    except Exception as error:  # whatever it is, the process that has asked is told
        sys.stderr.write("".join(_place(error)))
        return 1
    return 0


def _body(question: Question, decision: Decision, found: Found | None) -> dict[str, Any]:
    before = Holding() if found is None else found.holding
    after = carried_out(decision, before, question.spec, question.now)
    return layout.body(question.name, after, found)


def _place(error: Exception) -> Iterator[str]:
    yield type(error).__name__
    for frame in traceback.extract_tb(error.__traceback__)[-1:]:
        yield f" at {frame.name}, line {frame.lineno} of {frame.filename}"
