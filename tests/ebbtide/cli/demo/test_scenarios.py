"""Every scenario ends as it promises, whatever is left to chance."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from ebbtide.cli.demo.account import Facts, facts_of, judgement
from ebbtide.cli.demo.chronicle import Moment, What, most_away
from ebbtide.cli.demo.play import Ending, Nobody, play, rehearse
from ebbtide.cli.demo.promises import Evidence, Promise
from ebbtide.cli.demo.scenario import RISKY, SAFE, Scenario, World
from ebbtide.cli.demo.scenarios import SCENARIOS
from ebbtide.cli.demo.scene import Scene
from ebbtide.cli.demo.stage import raised
from ebbtide.config import Settings
from ebbtide.errors import ClusterAccessError
from ebbtide.sim.faults import Answer
from ebbtide.sim.time import simulate

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@dataclass
class Watcher:
    """Keeps every scene, ten a second."""

    scenes: list[Scene] = field(default_factory=list)

    def moment(self, moment: Moment, /) -> None: ...

    async def watch(self, look: Callable[[], Scene], /) -> None:
        while True:
            self.scenes.append(look())
            await asyncio.sleep(0.1)


def played(name: str, seed: int = 1) -> Ending:
    return play(BY_NAME[name], seed, None, Nobody())


def facts(name: str) -> Facts:
    return facts_of(played(name))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", BY_NAME)
def test_every_scenario_keeps_its_promise_in_less_than_a_minute_at_the_usual_speed(name: str, seed: int) -> None:
    ending = played(name, seed)
    assert ending.broken == ()
    assert ending.lasted < 10 * 60


@pytest.mark.parametrize("name", BY_NAME)
def test_the_same_seed_gives_the_same_chronicle(name: str) -> None:
    first, second = played(name, 5), played(name, 5)
    assert list(first.evidence.chronicle) == list(second.evidence.chronicle)


def test_a_false_alarm_moves_nothing() -> None:
    found = facts("false-alarm")
    assert found.signalled == ("a-1",)
    assert (found.tainted, found.evicted, found.taken, found.longest) == ((), (), (), None)
    assert not found.added


def test_several_signals_block_the_zone_and_move_the_pods_of_both_nodes() -> None:
    found = facts("several-signals")
    assert set(found.signalled) == {"a-1", "a-2"}
    assert set(found.tainted) == {"a-1", "a-2", "a-3"}
    assert len(found.evicted) == 4
    assert set(found.added) == {SAFE}
    assert found.killed == ()


def test_one_signal_waits_for_its_limit_and_then_moves_only_its_own_node() -> None:
    ending = played("one-old-signal")
    chronicle = ending.evidence.chronicle
    [signal] = chronicle.of(What.SIGNALLED)
    taints, evictions = chronicle.of(What.TAINTED), chronicle.of(What.EVICTED)
    assert 120 <= taints[0].at - signal.at < 121
    assert {moment.node for moment in evictions} == {"a-1"}


def test_a_budget_is_respected_at_every_moment_and_still_lets_both_pods_go() -> None:
    watcher = Watcher()
    ending = play(BY_NAME["budget"], 1, None, watcher)
    assert most_away(ending.evidence.chronicle, "tikv-") == 1
    serving = [
        sum(pod.app == "tikv" and pod.phase.name == "SERVING" for node in scene.nodes for pod in node.pods)
        for scene in watcher.scenes
    ]
    assert min(serving) == 2
    assert {"tikv-0", "tikv-1"} <= set(facts_of(ending).evicted)
    assert facts_of(ending).held_back == ("tikv-1",)


def test_a_late_node_is_tainted_before_any_pod_gets_there() -> None:
    ending = played("late-node")
    [late] = [moment for moment in ending.evidence.chronicle.of(What.NODE_ADDED) if moment.zone == RISKY]
    [taint] = [moment for moment in ending.evidence.chronicle.of(What.TAINTED) if moment.who == late.who]
    assert taint.at - late.at < 1
    assert late.who not in {moment.node for moment in ending.evidence.chronicle.of(What.POD_PLACED)}


def test_when_all_nodes_are_cordoned_the_reconciler_says_that_the_block_is_ineffective() -> None:
    ending = played("all-cordoned")
    states = [moment.who for moment in ending.evidence.chronicle.of(What.ZONE)]
    assert states[0] == "ineffective"
    assert facts_of(ending).added[RISKY] > 0
    assert "ZoneBlockIneffective" in {moment.who for moment in ending.evidence.chronicle.of(What.WARNING)}


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "false-alarm" and BY_NAME[name].scaler is None])
def test_without_a_reconciler_the_instances_go_with_their_pods(name: str) -> None:
    alone = facts_of(rehearse(BY_NAME[name], 1))
    assert alone.killed
    assert (alone.tainted, alone.evicted) == ((), ())


def test_a_scenario_that_does_not_come_true_ends_at_its_limit_with_the_reason() -> None:
    never = Promise("pigs fly", lambda _: "gravity")
    ending = play(replace(BY_NAME["false-alarm"], awaited=(never,), limit=20.0), 1, None, Nobody())
    assert ending.late
    assert list(judgement(ending)) == ["Not as promised within 0:20: pigs fly (gravity)"]


def test_a_promise_that_is_broken_on_the_way_is_found_at_the_end() -> None:
    def seen(evidence: Evidence) -> str:
        return "; ".join(moment.who for moment in evidence.chronicle.of(What.SIGNALLED))

    ending = play(replace(BY_NAME["false-alarm"], kept=(Promise("no signal", seen),)), 1, None, Nobody())
    assert not ending.late
    assert list(judgement(ending)) == ["Not as promised: no signal (a-1)"]


def test_a_script_that_fails_is_not_taken_for_an_ending() -> None:
    async def failing(world: World) -> None:
        await world.at(3)
        raise LookupError("the script is wrong")

    broken: Scenario = replace(BY_NAME["false-alarm"], script=failing, limit=10.0)
    with pytest.raises(LookupError, match="the script is wrong"):
        play(broken, 1, None, Nobody())


def test_a_reconciler_that_dies_ends_the_play_in_its_own_words() -> None:
    async def refused() -> None:
        async with raised(Settings(), 1) as stage:
            stage.cluster.faults.inject(Answer(401))
            stage.cluster.wire.reset()
            await asyncio.sleep(600)

    with pytest.raises(ClusterAccessError, match="does not accept the credentials"):
        simulate(refused())
