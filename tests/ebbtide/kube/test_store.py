"""A store is what the server is, whatever happens to the events on the way."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.kube.store import Store
from ebbtide.sim.time import simulate
from tests.ebbtide.kube.projection import Small, small
from tests.ebbtide.kube.wire import node

Told = list[tuple[Small | None, Small | None]]


def store(version: int, *objects: Mapping[str, Any]) -> tuple[Store[Small], Told]:
    """A synced store, and what its handlers are told from then on."""
    made, told = Store(small), Told()
    listed(made, version, *objects)
    made.subscribe(lambda old, new: told.append((old, new)))
    return made, told


def listed(target: Store[Small], version: int, *objects: Mapping[str, Any]) -> None:
    world = target.gather()
    for raw in objects:
        world.apply("ADDED", raw)
    target.swap(world, version)


def notes(target: Store[Small]) -> dict[str, str]:
    return {each.key: each.note for each in target.values()}


def names(told: Told) -> list[tuple[str | None, str | None]]:
    return [(old.note if old else None, new.note if new else None) for old, new in told]


def test_nothing_is_visible_before_the_first_list_is_complete() -> None:
    made, told = Store(small), Told()
    made.subscribe(lambda old, new: told.append((old, new)))
    world = made.gather()
    world.apply("ADDED", node("a", 1))
    before = made.synced, len(made), made.version
    made.swap(world, 5)
    assert before == (False, 0, 0)
    assert (made.synced, len(made), made.version) == (True, 1, 5)
    assert names(told) == [(None, "")]


def test_events_add_change_and_remove() -> None:
    made, told = store(1)
    made.apply("ADDED", node("a", 2, note="one"))
    made.apply("MODIFIED", node("a", 3, note="two"))
    made.apply("DELETED", node("a", 4, note="two"))
    assert names(told) == [(None, "one"), ("one", "two"), ("two", None)]
    assert len(made) == 0


def test_a_change_that_nobody_reads_is_kept_as_a_version_and_told_to_nobody() -> None:
    made, told = store(2, node("a", 2, note="same"))
    made.apply("MODIFIED", node("a", 3, note="same"))
    known = made.get("a")
    assert known is not None
    assert known.resource_version == 3
    assert told == []


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_older_events_about_an_object_change_nothing(kind: str) -> None:
    made, told = store(9, node("a", 7, note="new"))
    made.apply(kind, node("a", 6, note="old"))
    assert notes(made) == {"a": "new"}
    assert told == []


def test_a_repeated_event_does_not_bring_back_what_has_ended() -> None:
    made, _ = store(1)
    made.apply("ADDED", node("a", 2))
    made.apply("DELETED", node("a", 3))
    made.apply("ADDED", node("a", 2))
    made.apply("MODIFIED", node("a", 2))
    assert len(made) == 0


def test_the_late_end_of_a_predecessor_leaves_the_object_that_took_its_name() -> None:
    made, told = store(1, node("a", 1, uid="first"))
    made.apply("ADDED", node("a", 5, uid="second", note="new"))
    made.apply("DELETED", node("a", 4, uid="first"))
    assert notes(made) == {"a": "new"}
    assert len(told) == 1


def test_the_end_of_a_successor_that_was_never_seen_removes_the_predecessor_too() -> None:
    """At that version nothing of the name was there, whichever UID is known."""
    made, _ = store(1, node("a", 1, uid="first"))
    made.apply("DELETED", node("a", 8, uid="second"))
    assert len(made) == 0


def test_a_new_object_of_a_name_replaces_the_old_one_in_one_step() -> None:
    made, told = store(1, node("a", 1, uid="first"))
    made.apply("ADDED", node("a", 5, uid="second"))
    [(old, new)] = told
    assert old is not None
    assert new is not None
    assert (old.uid, new.uid) == ("first", "second")


def test_a_fresh_list_removes_what_is_gone_and_tells_all_differences() -> None:
    made, told = store(5, node("a", 1, note="a"), node("b", 2, note="b"), node("c", 3, note="c"))
    listed(made, 9, node("b", 2, note="b"), node("c", 8, note="c2"), node("d", 7, note="d"))
    assert notes(made) == {"b": "b", "c": "c2", "d": "d"}
    assert sorted(names(told), key=str) == [("a", None), ("c", "c2"), (None, "d")]


def test_handlers_see_the_whole_new_world() -> None:
    made, sizes = Store(small), list[int]()
    made.subscribe(lambda _, __: sizes.append(len(made)))
    listed(made, 5, node("a", 1), node("b", 2))
    assert sizes == [2, 2]


def test_an_own_write_is_seen_at_once_and_its_event_says_nothing_new() -> None:
    made, told = store(5, node("a", 5, note="old"))
    made.observe(node("a", 8, note="written"))
    made.apply("MODIFIED", node("a", 6, note="between"))
    made.apply("MODIFIED", node("a", 8, note="written"))
    assert notes(made) == {"a": "written"}
    assert names(told) == [("old", "written")]


def test_an_own_write_does_not_hide_earlier_events_about_other_objects() -> None:
    made, _ = store(5, node("a", 5))
    made.observe(node("a", 9))
    made.apply("ADDED", node("b", 7, note="b"))
    assert "b" in notes(made)


@pytest.mark.parametrize(
    "answer", [node("a", 4, note="older"), node("a", 9, uid="other", note="other"), node("b", 9, note="unknown")]
)
def test_an_answer_never_adds_never_goes_back_and_never_changes_identity(answer: dict[str, Any]) -> None:
    made, told = store(5, node("a", 5, note="now"))
    made.observe(answer)
    assert notes(made) == {"a": "now"}
    assert told == []


def test_a_list_taken_before_an_own_write_does_not_undo_it() -> None:
    made, told = store(5, node("a", 5, note="old"))
    made.observe(node("a", 9, note="written"))
    told.clear()
    listed(made, 8, node("a", 5, note="old"))
    assert notes(made) == {"a": "written"}
    assert told == []


def test_a_server_restored_from_a_backup_is_believed() -> None:
    made, _ = store(100, node("a", 90, note="future"), node("b", 91))
    listed(made, 40, node("a", 30, note="restored"))
    assert notes(made) == {"a": "restored"}
    made.apply("MODIFIED", node("a", 41, note="later"))
    assert notes(made) == {"a": "later"}


def test_an_object_that_cannot_be_read_is_left_out_and_stops_nobody() -> None:
    made, _ = store(1)
    made.apply("ADDED", {"metadata": {"name": "odd", "resourceVersion": "2"}})
    made.observe({"metadata": None})
    made.apply("ADDED", node("a", 3))
    assert set(notes(made)) == {"a"}


def test_age_is_the_time_since_the_server_was_heard_of() -> None:
    async def scenario() -> tuple[float, float]:
        made = Store(small)
        before = made.age()
        made.touch()
        return before, made.age()

    assert simulate(scenario()) == (float("inf"), 0.0)


# --- any history ------------------------------------------------------------------------------------------------

STEPS = st.tuples(st.sampled_from(["write", "write", "write", "delete"]), st.sampled_from("abc"))
FATES = st.sampled_from(["deliver", "deliver", "twice", "lose", "hold", "relist", "own"])


class Server:
    """The truth, with every event of its history."""

    def __init__(self) -> None:
        self.version = 1
        self.objects: dict[str, dict[str, Any]] = {}
        self.born = 0

    def step(self, act: str, name: str) -> tuple[str, dict[str, Any]] | None:
        known = self.objects.get(name)
        if act == "delete" and known is None:
            return None
        self.version += 1
        if act == "delete":
            assert known is not None
            del self.objects[name]
            return "DELETED", node(name, self.version, uid=known["metadata"]["uid"])
        self.born += known is None
        uid = known["metadata"]["uid"] if known else f"{name}-{self.born}"
        self.objects[name] = node(name, self.version, uid=uid, note=str(self.version))
        return "MODIFIED" if known else "ADDED", self.objects[name]


@given(steps=st.lists(st.tuples(STEPS, FATES), max_size=60), data=st.data())
def test_any_history_ends_like_the_server(steps: list[tuple[tuple[str, str], str]], data: st.DataObject) -> None:
    """Repeated, late and lost events, lists in between, and own writes seen early; after a loss there is a list."""
    server, delivered, lost = Server(), list[tuple[str, dict[str, Any]]](), False
    made, told = store(1)
    for (act, name), fate in steps:
        happened = server.step(act, name)
        if happened is not None:
            if fate == "own":
                made.observe(happened[1]) if happened[0] != "DELETED" else None
            lost = lost or fate in ("lose", "hold")
            if fate not in ("lose", "hold"):
                made.apply(*happened)
            if fate == "twice":
                made.apply(*happened)
            delivered.append(happened)
        late = data.draw(st.integers(-len(delivered) - 1, len(delivered) - 1), label="repeat an old event")
        if late >= 0:
            made.apply(*delivered[late])
        if fate == "relist":
            listed(made, server.version, *server.objects.values())
            lost = False
    if lost:
        listed(made, server.version, *server.objects.values())
    assert {each.key: (each.uid, each.note) for each in made.values()} == {
        name: (raw["metadata"]["uid"], raw["metadata"]["annotations"]["note"]) for name, raw in server.objects.items()
    }
    assert replayed(told) == {each.key: each for each in made.values()}


def replayed(told: Told) -> dict[str, Small]:
    """What somebody knows who only listens to the handlers."""
    known: dict[str, Small] = {}
    for old, new in told:
        assert old != new
        changed = new or old
        assert changed is not None
        assert known.get(changed.key) == old
        if new is None:
            del known[changed.key]
        else:
            known[new.key] = new
    return known
