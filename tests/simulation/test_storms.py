"""Half of a node group is signalled within a minute, in all of its zones at once."""

import asyncio
from collections.abc import Iterator

import pytest

from ebbtide import vocabulary
from ebbtide.sim.actors.kubelet import Timings
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.stored import Event
from tests.simulation.changes import Changes
from tests.simulation.draws import is_signalled
from tests.simulation.stage import Replica, Stage, play
from tests.simulation.test_all_zones import told
from tests.simulation.wiretap import EVICTION_PATH, Request

ZONES = ("a", "b", "c")
EVERYBODY = [f"{zone}{number}" for zone in ZONES for number in range(20)]
# Zone after zone in turn, so that the oldest signals are at the front.
STRUCK = [f"{zone}{number}" for number in range(10) for zone in ZONES]
FALSE_ALARMS, TAKEN, REPLACEMENTS = STRUCK[-9:], ["a0", "b0", "c0"], ["a20", "b20", "c20"]
# Seconds between two signals, and until a false alarm ends.
EVERY, ENDS_AFTER = 2.0, 15.0


class Storm:
    """Watches what goes on while it rages; `broken` is what must not be."""

    def __init__(self, stage: Stage) -> None:
        self.broken: list[str] = []
        self.most_going = 0
        self.changes = Changes(stage)
        self._stage = stage
        self._asked: set[str] = set()
        stage.journal.watchers += [self, self.changes]
        stage.storage.listen(self._count, PODS)

    def arrived(self, request: Request) -> None:
        if not request.matches("POST", EVICTION_PATH):
            return
        self._asked.add(request.uid)
        pod = self._stage.storage.find(PODS, request.pod, "default")
        since = self._stage.first_seen(pod.body["spec"]["nodeName"])
        self.broken += [f"{request.pod} is asked to go before {other}" for other in self._older_than(since or "")]

    def answered(self, request: Request) -> None:
        """Answers tell nothing that the storage does not."""

    def _older_than(self, since: str) -> Iterator[str]:
        """Pods that were not asked yet, on nodes with older signals that are to be emptied."""
        older = {name for name in EVERYBODY + REPLACEMENTS if self._is_to_be_emptied(name, since)}
        for pod in self._stage.storage.scan(PODS):
            if pod.body["spec"]["nodeName"] in older and not pod.deleting and pod.uid not in self._asked:
                yield pod.name

    def _is_to_be_emptied(self, name: str, since: str) -> bool:
        """With a signal from before that time, and a taint that is old enough for the node to have been looked at."""
        node = self._stage.storage.peek(NODES, name)
        if node is None or not is_signalled(node.body) or (self._stage.first_seen(name) or since) >= since:
            return False
        times = [int(t["value"]) for t in node.body["spec"]["taints"] if t["key"] == vocabulary.PREVENT_TAINT_KEY]
        return bool(times) and self._stage.now - times[0] > 2

    def _count(self, _: Event) -> None:
        going = (pod.deleting and pod.uid in self._asked for pod in self._stage.storage.scan(PODS))
        self.most_going = max(self.most_going, sum(going))


async def strike(stage: Stage) -> None:
    """A minute of signals, some of which vanish; then three nodes are taken, and signals hit their replacements too."""
    loop = asyncio.get_running_loop()
    for name in STRUCK:
        stage.signal(name)
        if name in FALSE_ALARMS:
            loop.call_later(ENDS_AFTER, stage.calm, name)
        await asyncio.sleep(EVERY)
    stage.delete(*TAKEN)
    for name in REPLACEMENTS:
        stage.join(name)
    await asyncio.sleep(EVERY)
    for name in REPLACEMENTS:
        stage.pods(name, f"{name}-0")
        stage.signal(name)
    await asyncio.sleep(ENDS_AFTER)


def in_zones(names: list[str], zones: tuple[str, ...]) -> list[str]:
    return [name for name in names if name[0] in zones]


def zone_news(stage: Stage, reason: str) -> list[str]:
    """The zones that were told of with that reason, in alphabetical order."""
    return sorted(request.document["regarding"]["name"][0] for request in stage.journal.events(reason))


@pytest.mark.parametrize(("min_open_zones", "hold_down", "at_most"), [(0, 0, 5), (0, 120, 2), (1, 0, 2), (1, 120, 5)])
def test_nr_53_a_storm_over_three_zones(min_open_zones: int, hold_down: int, at_most: int) -> None:
    """One write for each change, one Event for each zone, the oldest signals first, never too many pods at once."""
    closed, open_ = (ZONES, ()) if not min_open_zones else (("a", "b"), ("c",))

    async def story(stage: Stage) -> None:
        stage.nodes(*EVERYBODY)
        for name in STRUCK:
            stage.pods(name, f"{name}-0", f"{name}-1")
        storm = Storm(stage)
        one = stage.start()
        await stage.until(lambda: one.leads)
        await strike(stage)
        _check_height(stage, one)
        hit = [name for name in STRUCK + REPLACEMENTS if name not in FALSE_ALARMS + TAKEN]
        await stage.until(lambda: not any(map(stage.on_node, in_zones(hit, closed))), within=400)
        assert all(len(stage.on_node(name)) == 2 for name in in_zones(STRUCK, open_) if name not in TAKEN)
        assert storm.most_going == at_most
        _end(stage, hit)
        await _check_end(stage, one)
        assert storm.broken == []
        assert storm.changes.broken == []

    def _check_height(stage: Stage, one: Replica) -> None:
        left = [name for name in EVERYBODY + REPLACEMENTS if name not in TAKEN]
        assert stage.prevented(*in_zones(left, closed))
        assert stage.clean(*in_zones(left, open_))
        assert [one.state(zone) for zone in ZONES] == ["blocked" if zone in closed else "open" for zone in ZONES]
        assert zone_news(stage, "ZoneBlocked") == list(closed)
        # The third zone closes by its second signal.
        assert told(stage) == ([] if open_ else ["c1"])
        assert len({stage.first_seen(name) for name in STRUCK[3:21]}) == 18
        assert not any(map(stage.first_seen, FALSE_ALARMS))

    def _end(stage: Stage, hit: list[str]) -> None:
        # The open zone first, which would be closed for a moment should it come last.
        stage.calm(*in_zones(hit, open_), *in_zones(hit, closed))

    async def _check_end(stage: Stage, one: Replica) -> None:
        ended = stage.time
        names = [name for name in EVERYBODY + REPLACEMENTS if name not in TAKEN]
        await asyncio.sleep(max(0, hold_down - 1))
        assert not hold_down or stage.prevented(*in_zones(names, closed))
        await stage.until(lambda: stage.clean(*names), within=2)
        await asyncio.sleep(ended + 600 - stage.time)
        assert stage.clean(*names)
        assert not any(map(stage.first_seen, names))
        assert [one.state(zone) for zone in ZONES] == ["open"] * 3
        assert zone_news(stage, "ZoneOpened") == list(closed)
        # Blocked and opened, once each; a node that was never signalled knows nothing else.
        for name in in_zones(EVERYBODY, closed):
            if name not in STRUCK:
                assert len(list(stage.journal.own_changes(name))) == 2

    play(
        story,
        timings=Timings(stopping=4.0),
        min_open_zones=min_open_zones,
        hold_down=hold_down,
        max_evictions_in_flight=at_most,
    )
