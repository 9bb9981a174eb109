"""Probes: what is wrong, in words, and which of the two answers it concerns."""

import pytest

from ebbtide.service.probes import Health, not_longer_than


def test_without_checks_all_is_well() -> None:
    health = Health()
    assert health.liveness().good
    assert health.readiness().good
    assert health.readiness().text() == "ok"


def test_a_failing_readiness_check_leaves_the_process_alive() -> None:
    health = Health()
    health.ready_while("nodes", lambda: "the list is not complete")
    assert health.liveness().good
    assert health.readiness().text() == "nodes: the list is not complete"


def test_what_is_not_alive_is_not_ready() -> None:
    health = Health()
    health.alive_while("election", lambda: "no step for 60 s")
    assert not health.liveness().good
    assert health.readiness().reasons == {"election": "no step for 60 s"}


def test_all_reasons_are_given_one_per_line() -> None:
    health = Health()
    health.ready_while("nodes", lambda: "b")
    health.ready_while("cluster", lambda: "a")
    assert health.readiness().text() == "cluster: a\nnodes: b"


def test_checks_are_asked_anew_every_time() -> None:
    health, reasons = Health(), ["starting"]
    health.ready_while("nodes", lambda: reasons[0] if reasons else None)
    assert not health.readiness().good
    reasons.clear()
    assert health.readiness().good


def test_a_part_that_died_stays_dead_whatever_its_check_says() -> None:
    health = Health()
    health.alive_while("nodes", lambda: None)
    health.died("nodes", "bug")
    assert health.liveness().reasons == {"nodes": "bug"}


def test_a_name_can_be_taken_once() -> None:
    health = Health()
    health.ready_while("nodes", lambda: None)
    with pytest.raises(ValueError, match="nodes"):
        health.ready_while("nodes", lambda: None)


def test_an_age_is_tolerated_up_to_its_limit() -> None:
    assert not_longer_than(10, lambda: 10.0, "silent")() is None
    assert not_longer_than(10, lambda: 61.4, "silent")() == "silent for 61 s (at most 10 s)"
