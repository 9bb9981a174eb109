"""A test that hangs fails, and shows what it waits for; the run goes on.

Set-up, call and tear-down of a test may each take as long as the option `ceiling` says, which is far longer than any of
them needs. Then the test is failed where it is, with the stacks of all tasks and threads. Where that does not help,
since nothing of Python is run any more, the process ends a while later: the run then names its last test.

A test is left by an interrupt, as from a keyboard: event loops keep every other exception to the task or the callback
in which it is raised, and the loop would run on; and a search for counter-examples would try it again and again.
"""

import asyncio
import faulthandler
import gc
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest

_OPTION: Final = "ceiling"
_SECONDS: Final = 600.0
# As often as long for the process as for a test, and for what is to be left after the first interrupt.
_DEAF: Final = 1.5
_AGAIN: Final = 0.1


def add_option(parser: pytest.Parser) -> None:
    words = "seconds for each of set-up, call and tear-down of a test; 0: as long as they like"
    parser.addini(_OPTION, words, default=str(_SECONDS))


class _Reached(KeyboardInterrupt):
    """Has the stacks."""


class Ceiling:
    """A plugin of pytest."""

    NAME: Final = "ceiling"

    def __init__(self, config: pytest.Config) -> None:
        self._seconds = float(config.getini(_OPTION))
        # Tests get another standard error.
        self._errors = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """For what may take longer than a test: the first one that asks for the control plane may have it built."""
        self._set(0.0)
        try:
            yield
        finally:
            self._set(self._seconds)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._bounded())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._bounded())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._bounded())

    def pytest_enter_pdb(self) -> None:
        self._set(0.0)

    def _bounded(self) -> Generator[None, object, object]:
        before = signal.signal(signal.SIGALRM, self._reached)
        self._set(self._seconds)
        try:
            return (yield)
        except _Reached as reached:
            pytest.fail(str(reached))
        finally:
            self._set(0.0)
            signal.signal(signal.SIGALRM, before)

    def _set(self, seconds: float) -> None:
        # Again and again: what is closed on the way out may hang too.
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN * seconds)
        if seconds:
            faulthandler.dump_traceback_later(_DEAF * seconds, exit=True, file=self._errors)
        else:
            faulthandler.cancel_dump_traceback_later()

    def _reached(self, _signal: int, frame: FrameType | None) -> None:
        raise _Reached(f"not through after {self._seconds:.0f} s\n{''.join(_stacks(frame))}")


def _stacks(frame: FrameType | None) -> Iterator[str]:
    """What every task waits for, and where every thread is, this one last, in `frame`."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop is running
        tasks = set()
    for task in sorted(tasks, key=lambda each: each.get_name()):
        yield f"task {task.get_name()}:\n"
        yield from traceback.format_list(_awaited(task.get_coro()))
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.ident in frames:
            yield f"thread {thread.name}:\n"
            yield from traceback.format_stack(frames[thread.ident])
    yield "here:\n"
    yield from traceback.format_stack(frame)


def _awaited(coroutine: Any) -> traceback.StackSummary:
    """From a task's coroutine down to what it waits for; `Task.get_stack` knows the uppermost frame only."""
    frames = []
    while coroutine is not None:
        frame = next(filter(None, (getattr(coroutine, f"{kind}_frame", None) for kind in ("cr", "gi", "ag"))), None)
        if frame is not None:
            frames.append((frame, frame.f_lineno))
        awaited = (getattr(coroutine, name, None) for name in ("cr_await", "gi_yieldfrom", "ag_await"))
        # A step of an asynchronous generator, as context managers are made of, does not say whose it is.
        steps = filter(inspect.isasyncgen, gc.get_referents(coroutine))
        coroutine = next(filter(None, (*awaited, *steps)), None)
    return traceback.StackSummary.extract(iter(frames))
