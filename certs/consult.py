"""Who answers the questions of a look: this process, or a short-lived one of its own.

cryptography and its own OpenSSL take 13 MB for as long as a process lives, and are needed for less than a second when
the Secret, a caBundle or the time asks for it. A leader therefore has a child answer. Question and answer, which hold
keys, go through pipes: nothing of them stands among arguments, in the environment or on a disk.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from certs.look import Answer, Question

Consult = Callable[[Question], Awaitable[Answer]]

# It takes a third of a second; a machine that is busy, or a pod that is throttled, is given a hundred times that.
_WITHIN: Final = 30.0
_LONGEST_COMPLAINT: Final = 500


# The child imports from where its parent does, and not, as with `-m`, from the directory that it happens to be in.
_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from certs.answer import main; sys.exit(main())"


class NoAnswerError(Exception):
    """The child could not be started, hung or failed; the next look asks another one."""


async def here(question: Question) -> Answer:
    """This process answers: for whoever does not count megabytes, or is to use no other process."""
    # Not before somebody needs it: it imports cryptography.
    from certs.answer import answer  # noqa: PLC0415

    return answer(question)


def _command() -> tuple[str, ...]:
    return (sys.executable, "-P", "-c", _PROGRAM, *sys.path)


@dataclass(frozen=True, slots=True)
class Child:
    """A `Consult`: `command` is started for every question, and killed when it takes longer than `within` seconds."""

    command: tuple[str, ...] = field(default_factory=_command)
    within: float = _WITHIN

    async def __call__(self, question: Question) -> Answer:
        """Raises NoAnswerError. The child has ended in any case, also where the caller is cancelled."""
        try:
            # A session of its own: an interrupt from the terminal is for the program, which lets its work finish.
            child = await asyncio.create_subprocess_exec(
                *self.command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            raise NoAnswerError(f"{self.command[0]} cannot be started: {error.strerror or error}") from error
        try:
            async with asyncio.timeout(self.within):
                said, complaint = await child.communicate(msgspec.json.encode(question))
        except TimeoutError as error:
            raise NoAnswerError(f"certificates were not looked at within {self.within:g} s") from error
        finally:
            await _end(child)
        if child.returncode:
            words = complaint.decode(errors="replace").strip()[-_LONGEST_COMPLAINT:]
            raise NoAnswerError(f"looking at certificates ended with {child.returncode}: {words or 'no word'}")
        return _read(said)


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def _read(said: bytes) -> Answer:
    try:
        return msgspec.json.decode(said, type=Answer)
    except msgspec.DecodeError:
        # Without its cause, which may quote what was said.
        raise NoAnswerError("looking at certificates gave no answer that can be read") from None
