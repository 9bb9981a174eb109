"""How old a signal is, and whose it is."""

from dataclasses import replace

import pytest

from ebbtide.model import Taint, format_time
from reconciler.rebalance.signal import Source, epoch_seconds, first_seen, signal_of
from tests.reconciler.rebalance.builders import FOREIGN, HASH, NOW, SIGNAL, node, seen, signal_taint

VALUE, ADDED, OURS, FRESH = Source.TAINT_VALUE, Source.TIME_ADDED, Source.ANNOTATION, Source.NOW


@pytest.mark.parametrize(
    ("value", "added", "annotation", "age", "source"),
    [
        pytest.param("1772366000", None, 10, 400, VALUE, id="NR-07 the value is a time"),
        pytest.param(HASH, 90, 10, 90, ADDED, id="NR-07 timeAdded goes before the annotation"),
        pytest.param(HASH, None, 10, 10, OURS, id="NR-07 only the annotation"),
        pytest.param(HASH, None, None, 0, FRESH, id="NR-07 nothing at all"),
        pytest.param("", None, 301, 301, OURS, id="NR-07 empty value"),
        pytest.param("1772370000", None, 10, 0, VALUE, id="NR-07 an hour ahead"),
        pytest.param("1", None, 10, 10, OURS, id="NR-07 value 1"),
        pytest.param("true", None, 10, 10, OURS, id="NR-07 value true"),
        pytest.param("1772366000000", 90, None, 90, ADDED, id="NR-07 milliseconds"),
        pytest.param("1772366000", 90, 10, 400, VALUE, id="the value goes before everything"),
        pytest.param("1772366000", None, None, 400, VALUE, id="the value alone"),
        pytest.param("1772366400", None, None, 0, VALUE, id="the value is now"),
        pytest.param("1772366399", None, None, 1, VALUE, id="the value is a second ago"),
        pytest.param("1772366401", None, None, 0, VALUE, id="the value is a second ahead"),
        pytest.param("177236600", 7, None, 7, ADDED, id="nine digits"),
        pytest.param("0177236600", 7, None, 7, ADDED, id="ten digits, the first a zero"),
        pytest.param("17723660000", 7, None, 7, ADDED, id="eleven digits"),
        pytest.param("1772366000.5", 7, None, 7, ADDED, id="a fraction"),
        pytest.param("-177236600", 7, None, 7, ADDED, id="a sign"),
        pytest.param(" 1772366000", 7, None, 7, ADDED, id="a leading space"),
        pytest.param("1772366000\n", 7, None, 7, ADDED, id="a trailing newline"),
        pytest.param("1_77236600", 7, None, 7, ADDED, id="an underscore, which int() accepts"),
        pytest.param("١٧٧٢٣٦٦٠٠٠", 7, None, 7, ADDED, id="digits of another script, which int() accepts"),
        pytest.param("0x17723660", 7, None, 7, ADDED, id="hexadecimal"),
        pytest.param("2026-03-01", 7, None, 7, ADDED, id="a date of ten characters"),
        pytest.param("false", None, None, 0, FRESH, id="a boolean and nothing else"),
        pytest.param(HASH, -60, None, 0, ADDED, id="timeAdded ahead"),
        pytest.param(HASH, None, -60, 0, OURS, id="annotation ahead"),
        pytest.param(HASH, 0, 500, 0, ADDED, id="timeAdded now"),
        pytest.param(HASH, None, 0.25, 0.25, OURS, id="an annotation with a fraction"),
        pytest.param(HASH, None, 86400, 86400, OURS, id="annotation as old as the node"),
        pytest.param(HASH, None, 86401, 0, FRESH, id="NR-12 annotation older than the node"),
        pytest.param(HASH, 86401, None, 86401, ADDED, id="timeAdded older than the node stands: the API wrote it"),
        pytest.param("1772200000", None, None, 166400, VALUE, id="value older than the node stands: its writer knows"),
    ],
)
def test_the_time_is_taken_from_the_first_source_that_has_one(
    value: str, added: float | None, annotation: float | None, age: float, source: Source
) -> None:
    taint = signal_taint(value, added=None if added is None else NOW - added)
    signal = signal_of(
        node("a1", signal=taint, first_seen=None if annotation is None else seen(annotation)), SIGNAL, NOW
    )
    assert signal is not None
    assert (signal.age(NOW), signal.source) == (age, source)


@pytest.mark.parametrize("text", ["", "yesterday", "1772366000", "2026-03-01T11:59:00", "null", "2026-13-01T00:00:00Z"])
def test_an_unreadable_annotation_counts_as_none(text: str) -> None:
    """Also a time without a zone: nobody knows which clock it was."""
    signal = signal_of(node("a1", signal=signal_taint(), first_seen=text), SIGNAL, NOW)
    assert signal is not None
    assert signal.source is Source.NOW
    assert signal.since == NOW


@pytest.mark.parametrize("text", ["2026-03-01T11:59:30Z", "2026-03-01T12:59:30+01:00", "2026-03-01T11:59:30.000+00:00"])
def test_the_annotation_is_read_in_every_zone(text: str) -> None:
    """What another version or a person wrote is the same moment."""
    assert first_seen(node("a1", first_seen=text)) == NOW - 30


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "PreferNoSchedule", ""])
@pytest.mark.parametrize("value", [HASH, "", "true"])
def test_any_value_and_effect_is_a_signal(value: str, effect: str) -> None:
    """Only the key says what the taint means."""
    assert signal_of(node("a1", signal=signal_taint(value, effect=effect)), SIGNAL, NOW) is not None


@pytest.mark.parametrize(
    "taints",
    [(), (FOREIGN,), (Taint(SIGNAL + "s", "", "NoSchedule"),), (Taint("rebalance-recommendation", "", "NoSchedule"),)],
)
def test_other_keys_are_no_signal(taints: tuple[Taint, ...]) -> None:
    """Neither prefixes nor parts of the key count."""
    assert signal_of(node("a1", taints=taints, first_seen=seen(500)), SIGNAL, NOW) is None


def test_the_key_is_the_configured_one() -> None:
    """An operator may name another taint."""
    carried = node("a1", taints=[Taint("example.com/risk", "", "NoSchedule")])
    assert signal_of(carried, "example.com/risk", NOW) is not None
    assert signal_of(node("a1", signal=30), "example.com/risk", NOW) is None


def test_a_node_that_is_being_deleted_gives_no_signal() -> None:
    """NR-16: it is leaving anyway, and must not hold its zone closed."""
    assert signal_of(node("a1", signal=30, deleting=True), SIGNAL, NOW) is None


@pytest.mark.parametrize("taint", [signal_taint(), signal_taint("1772366390"), signal_taint(added=NOW - 10)])
def test_a_signal_behind_other_taints_is_found(taint: Taint) -> None:
    """Its place in the list says nothing."""
    signal = signal_of(node("a1", taints=[FOREIGN], signal=taint, prevent=True, first_seen=seen(10)), SIGNAL, NOW)
    assert signal is not None
    assert signal.age(NOW) == 10


@pytest.mark.parametrize(("later", "age"), [(0, 0), (59, 0), (60, 0), (61, 1), (400, 340)])
def test_a_time_ahead_begins_to_age_when_it_is_reached(later: float, age: float) -> None:
    """The age is never negative, and not stuck either."""
    signal = signal_of(node("a1", signal=signal_taint("1772366460")), SIGNAL, NOW)
    assert signal is not None
    assert signal.age(NOW + later) == age


def test_an_annotation_of_a_node_of_the_same_name_is_nobody_s() -> None:
    """NR-12: the name is used again, with a younger node."""
    young = replace(node("a1", signal=600), uid="uid-2", created=NOW - 30)
    assert first_seen(young) is None
    assert first_seen(replace(young, created=NOW - 600)) == NOW - 600


def test_a_signal_is_never_older_than_its_node() -> None:
    """Where our clock is behind the API server's, the first look dates it to the node's creation."""
    signal = signal_of(node("a1", signal=signal_taint(), created=NOW + 7), SIGNAL, NOW)
    assert signal is not None
    assert (signal.since, signal.source) == (NOW + 7, Source.NOW)


def test_what_is_written_is_what_is_read() -> None:
    """The annotation survives being written and read to the microsecond."""
    for time in (NOW, NOW + 0.5, NOW + 0.000001, 1000000000.0):
        assert first_seen(node("a1", first_seen=format_time(time), created=0.0)) == time


@pytest.mark.parametrize(("value", "seconds"), [("1000000000", 1e9), ("9999999999", 9999999999.0), ("", None)])
def test_ten_digits_are_epoch_seconds(value: str, seconds: float | None) -> None:
    """From 2001 to 2286."""
    assert epoch_seconds(value) == seconds
