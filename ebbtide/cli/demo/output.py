"""Two ways to watch a play: a live picture for a terminal, lines for everything else."""

import asyncio
import math
from collections.abc import Callable
from typing import Final, TextIO

from rich.console import Console
from rich.live import Live

from ebbtide.cli.demo.chronicle import Moment
from ebbtide.cli.demo.picture import Picture, Title
from ebbtide.cli.demo.scenario import Scenario
from ebbtide.cli.demo.scene import Scene
from ebbtide.cli.demo.words import Line, Voice, clock, lines

# Pictures in one real second: smooth for the eye, and little for a slow terminal or connection.
_RATE: Final = 10.0
# Seconds in one real second beyond which steps from picture to picture do not grow any more.
_FASTEST: Final = 50.0
_WIDEST_VOICE: Final = max(len(voice.value) for voice in Voice)


class Pictures:
    """Draws on the terminal's other screen, so that what was there before is there again afterwards."""

    def __init__(self, console: Console, scenario: Scenario, speed: float) -> None:
        self._console = console
        self._title = Title(scenario.name, scenario.summary, speed)
        self._pause = min(speed, _FASTEST) / _RATE
        self._moments: list[Moment] = []

    def moment(self, moment: Moment) -> None:
        self._moments.append(moment)

    async def watch(self, look: Callable[[], Scene], /) -> None:
        with Live(console=self._console, screen=True, auto_refresh=False, redirect_stderr=False) as live:
            while True:
                live.update(Picture(self._title, look(), lines(self._moments)), refresh=True)
                await asyncio.sleep(self._pause)

    def last(self, scene: Scene) -> Picture:
        """The picture to leave behind."""
        return Picture(self._title, scene, (), final=True)


class Lines:
    """Writes what happens, one line each, a second (simulated) after it happened at most."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._waiting: list[Moment] = []

    def moment(self, moment: Moment) -> None:
        self._waiting.append(moment)

    async def watch(self, look: Callable[[], Scene], /) -> None:
        try:
            while True:
                await asyncio.sleep(1.0)
                # What belongs to the second that runs may still be joined by more of its kind.
                self._write(until=math.floor(look().at))
        finally:
            self._write(until=math.inf)

    def _write(self, until: float) -> None:
        for line in lines(moment for moment in self._waiting if moment.at < until):
            self._out.write(f"{plain(line)}\n")
        self._out.flush()
        self._waiting = [moment for moment in self._waiting if moment.at >= until]


def plain(line: Line) -> str:
    """`  0:14  ebbtide     taints a-1, a-2 and a-3`."""
    return f"{clock(line.at):>5}  {line.voice.value:<{_WIDEST_VOICE}}  {line.text}"
