"""Leader election, at the wire and on simulated time: at most one may write, and somebody does."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ebbtide.kube.errors import NotLeading
from ebbtide.kube.resources import LEASES
from ebbtide.sim.time import SimulatedClock, simulate
from reconciler.engine.lease import Elector, Term, Timing
from reconciler.engine.lease_lock import Candidacy
from tests import waiting
from tests.reconciler.engine.lease_server import Fault, LeaseServer, now

FOREVER = 3600.0


class Replica:
    """A candidate, and a record of when it led: [begin, end] in loop time."""

    def __init__(self, server: LeaseServer, name: str, skew: float = 0.0, **candidacy: Any) -> None:
        clock = SimulatedClock(asyncio.get_running_loop()).skewed(skew)
        self.name = name
        self.client = server.client(name)
        identity = Candidacy("ebbtide-system", "ebbtide-reconciler", name, **candidacy)
        self.elector = Elector(self.client, clock, identity, chance=lambda: 0.5)
        self.terms: list[list[float]] = []
        self.unwinding = 0.0
        self.finishing = 0.0

    @property
    def leads(self) -> bool:
        return self.elector.permit()

    async def lead(self, term: Term) -> None:
        self.terms.append([now()])
        try:
            await term.stopping.wait()
            await asyncio.sleep(self.finishing)
        finally:
            self.terms[-1].append(now())
            await asyncio.sleep(self.unwinding)


@asynccontextmanager
async def running(*replicas: Replica) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.ensure_future(replica.elector.run(replica.lead)) for replica in replicas]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for replica in replicas:
            await replica.client.__aexit__()


def play(story: Callable[[LeaseServer], Coroutine[Any, Any, None]]) -> None:
    """Tells the story on simulated time; see `watch_exclusion`."""

    async def main() -> None:
        async with LeaseServer().serving() as server:
            await story(server)
            assert server.overlaps == []

    simulate(main())


def watch_exclusion(server: LeaseServer, *replicas: Replica) -> None:
    """Whenever a replica is given the Lease, none of the others may hold a permit; the story fails at its end."""

    def granted(client: str, lease: Mapping[str, Any]) -> None:
        others = [replica.name for replica in replicas if replica.name != client and replica.leads]
        if others and lease["spec"]["holderIdentity"] == client:
            server.overlaps.append(f"{client} got the lease at {now()} while {others} may still write")

    server.granted = granted


async def until(condition: Callable[[], bool], within: float = 120.0) -> float:
    """Loop time at which the condition came true, to a tenth of a second."""
    await waiting.until(condition, within)
    return now()


# --- one candidate ---------------------------------------------------------------------------------------------------


def test_a_lone_candidate_creates_the_lease_in_the_form_that_the_api_takes() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            spec = server.lease["spec"]
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
            for time in (spec["acquireTime"], spec["renewTime"]):
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time)

    play(story)


def test_the_holder_renews_with_one_request_every_retry_period_and_asks_nothing_else() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            acquired = server.lease["spec"]["acquireTime"]
            server.requests.clear()
            await asyncio.sleep(60)
            assert [method for _, _, method in server.requests] == ["PUT"] * len(server.requests)
            assert len(server.requests) in (29, 30)
            assert server.lease["spec"]["acquireTime"] == acquired
            assert server.lease["spec"]["renewTime"] > acquired

    play(story)


def test_other_peoples_labels_stay_and_own_annotations_are_there_while_leading_only() -> None:
    async def story(server: LeaseServer) -> None:
        server.leases["ebbtide-reconciler"] = {
            "metadata": {"name": "ebbtide-reconciler", "resourceVersion": "1", "labels": {"team": "db"}},
            "spec": {},
        }
        server.lease["metadata"]["annotations"] = {"note": "keep"}
        a = Replica(server, "a", annotations={"ebbtide/leader-url": "http://a"})
        async with running(a) as (task,):
            await until(lambda: a.leads)
            assert server.lease["metadata"]["annotations"] == {"note": "keep", "ebbtide/leader-url": "http://a"}
            assert a.elector.observed is not None
            assert a.elector.observed.annotations["ebbtide/leader-url"] == "http://a"
            a.elector.stop()
            await task
            assert server.lease["metadata"]["annotations"] == {"note": "keep"}
            assert server.lease["metadata"]["labels"] == {"team": "db"}

    play(story)


def test_what_a_holder_told_of_itself_goes_with_it_even_when_it_went_without_a_word() -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a", annotations={"ebbtide/leader-url": "http://a"}), Replica(server, "b")
        async with running(a):
            await until(lambda: a.leads)
            server.lease["metadata"]["annotations"]["note"] = "keep"
        async with running(b):
            await until(lambda: b.leads)
            assert server.lease["metadata"]["annotations"] == {"note": "keep"}

    play(story)


def test_who_does_not_lead_knows_for_how_long_the_lease_still_holds() -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a"), Replica(server, "b")
        async with running(a):
            await until(lambda: a.leads)
            async with running(b):
                await asyncio.sleep(60)
                assert 10 < b.elector.remaining() <= 15
                server.faults["b"] = 500
                await asyncio.sleep(20)
                assert b.elector.remaining() <= 0

    play(story)


def test_who_has_stopped_can_still_see_who_comes_next() -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a"), Replica(server, "b")
        async with running(a) as (task,):
            await until(lambda: a.leads)
            a.elector.stop()
            await task
            async with running(b):
                await until(lambda: b.leads)
                await a.elector.look()
                assert a.elector.observed is not None
                assert a.elector.observed.holder == "b"

    play(story)


def test_a_restarted_process_of_the_same_name_takes_its_own_lease_back_at_once() -> None:
    async def story(server: LeaseServer) -> None:
        a, again = Replica(server, "a"), Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
        async with running(again):
            began = now()
            assert await until(lambda: again.leads) - began < 1
            assert server.lease["spec"]["leaseTransitions"] == 0

    play(story)


def test_a_missing_namespace_is_told_once_and_waited_for() -> None:
    async def story(server: LeaseServer) -> None:
        server.namespaces.clear()
        a = Replica(server, "a")
        with capture_logs() as entries:
            async with running(a):
                await asyncio.sleep(60)
                assert not a.leads
                server.namespaces.add("ebbtide-system")
                await until(lambda: a.leads, within=5)
        problems = [entry["problem"] for entry in entries if entry["log_level"] == "warning"]
        assert len(problems) == 1
        assert "namespace 'ebbtide-system' of the lease does not exist: create it" in problems[0]

    play(story)


# --- several candidates ----------------------------------------------------------------------------------------------


def test_of_three_candidates_one_leads_and_the_others_wait() -> None:
    async def story(server: LeaseServer) -> None:
        replicas = [Replica(server, name) for name in "abc"]
        watch_exclusion(server, *replicas)
        async with running(*replicas):
            await asyncio.sleep(200)
            assert sorted(len(replica.terms) for replica in replicas) == [0, 0, 1]
            assert server.lease["spec"]["leaseTransitions"] == 0

    play(story)


def test_candidates_that_take_over_at_the_same_moment_get_one_leader() -> None:
    async def story(server: LeaseServer) -> None:
        dead = Replica(server, "dead")
        async with running(dead):
            await until(lambda: dead.leads)
        replicas = [Replica(server, name) for name in "abc"]
        watch_exclusion(server, *replicas)
        async with running(*replicas):
            await asyncio.sleep(100)
            assert sorted(len(replica.terms) for replica in replicas) == [0, 0, 1]
            assert server.lease["spec"]["leaseTransitions"] == 1

    play(story)


@pytest.mark.parametrize("fault", ["hang", "lose", 500, 503, 429, 403, 401])
def test_a_holder_without_answers_stops_at_its_deadline_before_the_other_begins(fault: Fault) -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a"), Replica(server, "b")
        watch_exclusion(server, a, b)
        async with running(a, b):
            await until(lambda: a.leads or b.leads)
            await asyncio.sleep(30)
            leader, other = (a, b) if a.leads else (b, a)
            last = max(time for time, client, method in server.requests if (client, method) == (leader.name, "PUT"))
            server.faults[leader.name] = fault
            lost = await until(lambda: not leader.leads)
            assert lost - last == pytest.approx(10, abs=2.2)
            assert not other.leads
            taken = await until(lambda: other.leads)
            assert leader.terms[-1][1] < taken
            # A lost answer may have renewed the lease after the last answered one.
            assert taken - last <= (29 if fault == "lose" else 20)

    play(story)


def test_the_work_is_cut_off_at_the_deadline_itself_although_an_attempt_is_under_way() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            server.requests.clear()
            await until(lambda: bool(server.requests))
            renewed = server.requests[-1][0]
            server.faults["a"] = "hang"
            await until(lambda: not a.leads)
            assert a.terms == [[pytest.approx(0, abs=0.01), pytest.approx(renewed + 10, abs=0.01)]]

    play(story)


def test_the_deadline_counts_from_the_request_and_not_from_a_slow_answer() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            server.faults["a:write"] = "slow"
            server.requests.clear()
            await until(lambda: len(server.requests) == 2)
            asked = server.requests[0][0]
            server.faults["a"] = "hang"
            await until(lambda: not a.leads)
            assert a.terms[-1][1] == pytest.approx(asked + 10, abs=0.01)

    play(story)


def test_after_a_loss_the_same_process_stands_again() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            server.faults["a"] = 500
            await until(lambda: not a.leads)
            server.faults.clear()
            await until(lambda: a.leads, within=10)
            assert len(a.terms) == 2

    play(story)


def test_no_new_term_begins_while_the_work_of_the_old_one_unwinds() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        a.unwinding = 20.0
        async with running(a):
            await until(lambda: a.leads)
            server.faults["a"] = 500
            ended = await until(lambda: not a.leads)
            server.faults.clear()
            await until(lambda: len(a.terms) == 2)
            assert a.terms[1][0] >= ended + 19

    play(story)


def test_no_write_leaves_the_process_after_the_deadline() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        permitted = a.client.permitted(a.elector.permit)
        async with running(a):
            await until(lambda: a.leads)
            server.faults["a"] = "hang"
            await until(lambda: not a.leads)
            server.faults.clear()
            with pytest.raises(NotLeading):
                await permitted.create(LEASES, {"metadata": {"name": "x"}}, namespace="ebbtide-system")
            assert "x" not in server.leases

    play(story)


def test_a_server_that_asks_to_be_left_alone_is_asked_less_often() -> None:
    async def story(server: LeaseServer) -> None:
        server.faults["a"] = 429
        a = Replica(server, "a")
        async with running(a):
            await asyncio.sleep(60)
            times = [time for time, _, _ in server.requests]
            assert min(later - earlier for earlier, later in pairwise(times)) >= 5

    play(story)


def test_a_holder_that_is_asked_to_wait_tries_again_before_its_deadline() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            server.faults["a:write"] = 429
            await asyncio.sleep(5)
            server.faults.clear()
            await asyncio.sleep(30)
            assert len(a.terms) == 1

    play(story)


# --- answers that get lost -------------------------------------------------------------------------------------------


def test_a_lost_answer_to_the_acquisition_is_found_out_by_reading() -> None:
    async def story(server: LeaseServer) -> None:
        server.faults["a:write"] = "lose"
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: bool(server.leases))
            assert not a.leads
            server.faults.clear()
            await until(lambda: a.leads, within=10)
            assert server.lease["spec"]["leaseTransitions"] == 0

    play(story)


def test_a_lost_answer_to_a_renewal_does_not_end_the_term() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            server.faults["a:write"] = "lose"
            await asyncio.sleep(3)
            server.faults.clear()
            await asyncio.sleep(60)
            assert a.leads
            assert len(a.terms) == 1

    play(story)


def test_a_renewal_that_arrives_after_its_sender_gave_up_takes_the_lease_from_nobody() -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a"), Replica(server, "b")
        watch_exclusion(server, a, b)
        async with running(a):
            await until(lambda: a.leads)
            async with running(b):
                await asyncio.sleep(10)
                server.faults["a"] = "late"
                await until(lambda: b.leads)
                await asyncio.sleep(60)
                assert b.leads
                assert server.lease["spec"]["holderIdentity"] == "b"

    play(story)


# --- other people's clocks and hands ---------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [-86_400.0, -30.0, 30.0, 86_400.0])
def test_wrong_clocks_neither_take_a_lease_that_is_renewed_nor_leave_one_that_is_not(skew: float) -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a"), Replica(server, "b", skew)
        watch_exclusion(server, a, b)
        async with running(b):
            async with running(a):
                await until(lambda: a.leads or b.leads)
                await asyncio.sleep(100)
                assert len(a.terms) + len(b.terms) == 1
            if not b.leads:
                gone = now()
                assert 10 < await until(lambda: b.leads) - gone < 20

    play(story)


def test_a_lease_that_somebody_deletes_is_made_anew_and_kept() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            server.leases.clear()
            await until(lambda: bool(server.leases), within=3)
            assert server.lease["spec"]["holderIdentity"] == "a"
            await asyncio.sleep(30)
            assert len(a.terms) == 1

    play(story)


def test_a_holder_that_finds_another_name_on_the_lease_stops_at_once() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a):
            await until(lambda: a.leads)
            edited = now()
            server.edit(holderIdentity="somebody", renewTime="2026-01-01T00:00:00.000000Z")
            assert await until(lambda: not a.leads) - edited <= 2.2
            await until(lambda: a.leads)
            assert now() - edited >= 15
            assert server.lease["spec"]["leaseTransitions"] == 1

    play(story)


@pytest.mark.parametrize("duration", [None, 0, -5, "soon"])
def test_a_nonsense_duration_on_the_lease_counts_as_the_own_one(duration: object) -> None:
    async def story(server: LeaseServer) -> None:
        server.leases["ebbtide-reconciler"] = {
            "metadata": {"name": "ebbtide-reconciler", "resourceVersion": "1"},
            "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": duration, "renewTime": "yesterday"},
        }
        a = Replica(server, "a")
        async with running(a):
            assert 15 <= await until(lambda: a.leads) < 20

    play(story)


# --- the end ---------------------------------------------------------------------------------------------------------


def test_on_stop_the_work_finishes_first_then_the_next_one_gets_the_lease_within_a_retry() -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a"), Replica(server, "b")
        a.finishing = 5.0
        watch_exclusion(server, a, b)
        async with running(a) as (task,):
            await until(lambda: a.leads)
            async with running(b):
                await asyncio.sleep(20)
                stopped = now()
                a.elector.stop()
                await task
                assert a.terms[-1][1] == pytest.approx(stopped + 5)
                spec = server.lease["spec"]
                assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
                assert await until(lambda: b.leads) - stopped < 5 + 4.5

    play(story)


def test_work_that_does_not_finish_in_time_is_cut_off_before_the_release() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        a.finishing = FOREVER
        async with running(a) as (task,):
            await until(lambda: a.leads)
            stopped = now()
            a.elector.stop()
            await task
            assert a.terms[-1][1] == pytest.approx(stopped + Timing().drain)
            assert server.lease["spec"]["holderIdentity"] == ""

    play(story)


def test_a_candidate_that_is_stopped_while_it_waits_leaves_the_lease_alone() -> None:
    async def story(server: LeaseServer) -> None:
        a, b = Replica(server, "a"), Replica(server, "b")
        async with running(a):
            await until(lambda: a.leads)
            async with running(b) as (task,):
                await asyncio.sleep(10)
                b.elector.stop()
                await task
                assert b.terms == []
                assert server.lease["spec"]["holderIdentity"] == "a"

    play(story)


def test_a_renewal_that_was_under_way_at_the_end_does_not_spoil_the_release() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a) as (task,):
            await until(lambda: a.leads)
            server.faults["a:write"] = "lose"
            before = server.lease["metadata"]["resourceVersion"]
            await until(lambda: server.lease["metadata"]["resourceVersion"] != before)
            server.faults.clear()
            a.elector.stop()
            await task
            assert server.lease["spec"]["holderIdentity"] == ""

    play(story)


def test_a_release_that_nobody_answers_does_not_hold_up_the_end() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")
        async with running(a) as (task,):
            await until(lambda: a.leads)
            server.faults["a"] = "hang"
            stopped = now()
            a.elector.stop()
            await task
            assert now() - stopped <= Timing().attempt + 0.1

    play(story)


def test_work_that_fails_gives_the_lease_back_and_says_why() -> None:
    async def story(server: LeaseServer) -> None:
        a = Replica(server, "a")

        async def lead(_term: Term) -> None:
            raise ValueError("bug")

        with pytest.raises(ValueError, match="bug"):
            await a.elector.run(lead)
        assert server.lease["spec"]["holderIdentity"] == ""
        assert not a.leads
        await a.client.__aexit__()

    play(story)


def test_an_election_that_makes_its_steps_is_not_stalled_even_without_any_answer() -> None:
    async def story(server: LeaseServer) -> None:
        server.faults["a"] = "hang"
        a = Replica(server, "a")
        async with running(a):
            for _ in range(60):
                await asyncio.sleep(1)
                assert a.elector.stalled() < 10
            assert a.elector.answered_for() == float("inf")

    play(story)


# --- whatever happens ------------------------------------------------------------------------------------------------

FAULTS = st.sampled_from(["hang", "lose", "slow", "late", 500, 429, None])
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), FAULTS, st.integers(1, 25)), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, skew=st.floats(-100, 100))
def test_whatever_the_server_does_no_two_replicas_may_write_and_when_it_heals_one_does(
    steps: list[tuple[str, bool, Fault | None, int]], skew: float
) -> None:
    async def story(server: LeaseServer) -> None:
        replicas = [Replica(server, "a"), Replica(server, "b", skew), Replica(server, "c", -skew)]
        watch_exclusion(server, *replicas)
        async with running(*replicas):
            for client, writes_only, fault, seconds in steps:
                where = f"{client}:write" if writes_only else client
                server.faults.pop(where, None)
                if fault is not None:
                    server.faults[where] = fault
                await asyncio.sleep(seconds)
                assert sum(replica.leads for replica in replicas) <= 1
            server.faults.clear()
            await until(lambda: any(replica.leads for replica in replicas), within=60)
            assert sum(replica.leads for replica in replicas) == 1

    play(story)
