"""Random histories: whatever happens to Secret, bundles and leaders, calls succeed, and everything comes to rest."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certs.issue import Pair
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import MUTATING_WEBHOOKS, SECRETS
from ebbtide.sim.stored import Event
from tests.certs.builders import self_signed
from tests.certs.world import NAMESPACE, SECRET, SECRET_PATH, World, configuration, play
from tests.simulation.wiretap import Hook, Request

LEAF, CA = 3600.0, 6 * 3600.0
_SLOTS = ("tls_crt", "tls_key", "ca_crt", "ca_signer_crt", "ca_signer_key", "ca_next_crt", "ca_next_key", "ca_old_crt")
_FOREIGN = self_signed()


@dataclass(frozen=True)
class Deed:
    """Something that happens; `name` is for the report of a failure."""

    name: str
    do: Callable[[World], Awaitable[None]]

    def __repr__(self) -> str:
        return self.name


def deed(name: str, do: Callable[[World], object]) -> Deed:
    async def done(world: World) -> None:
        do(world)

    return Deed(name, done)


def passes(seconds: float) -> Deed:
    async def wait(world: World) -> None:
        await asyncio.sleep(seconds)
        world.look()

    return Deed(f"{seconds} s pass", wait)


def garbled(slot: str, value: bytes) -> Deed:
    def do(world: World) -> None:
        if world.found is not None and (value or slot == "tls_crt"):
            world.garble(**{slot: value})

    return deed(f"{slot} is {'emptied' if not value else 'garbled'}", do)


def killed(nth: int, answered: bool) -> Deed:
    """The leader dies at its n-th write from now, before or after it is stored; the next one leads 15 s later."""

    def arm(world: World) -> None:
        leader, left = world.leaders[-1], [nth]

        def strike(request: Request) -> None:
            if request.who == leader.name and leader.alive:
                left[0] -= 1
                if left[0] < 0:
                    leader.kill()
                    asyncio.get_running_loop().call_later(15, succeed, world)

        for method, path in (("POST", SECRET_PATH), ("PUT", f"{SECRET_PATH}/*"), ("PATCH", "/apis/admission*")):
            world.journal.hooks.append(Hook(method, path, strike, answered, times=None))

    return deed(f"killed at write {nth} {'after' if answered else 'before'} it is stored", arm)


def succeed(world: World) -> None:
    if not world.leaders[-1].alive:
        world.lead(f"leader-{len(world.leaders)}")


def two_lead(world: World) -> None:
    """A second one believes that it leads, for a while."""
    if world.leaders[-1].alive:
        before = world.leaders[-1]
        world.lead(f"leader-{len(world.leaders)}")
        asyncio.get_running_loop().call_later(20, before.kill)


def fight(world: World) -> None:
    """Another writer sets its own bundle whenever it sees ours, for a minute."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 60

    def answer(event: Event) -> None:
        if loop.time() < until and event.stored.name == "sets":
            loop.call_soon(take)

    def take() -> None:
        if world.bundles()["sets/pods.webhook.ebbtide"] != _FOREIGN.certificate.pem:
            world.set_bundle("sets", _FOREIGN.certificate.pem)

    world.cluster.storage.listen(answer, MUTATING_WEBHOOKS)
    take()


async def renewed(world: World) -> None:
    """A replica is replaced."""
    await world.stop_serving(world.replicas[0])
    world.serve()


def delete(world: World) -> None:
    if world.found is not None:
        world.cluster.storage.delete(SECRETS, SECRET, NAMESPACE, Deletion())


def empty(world: World) -> None:
    if world.found is not None:
        world.change_secret({"data": None})


def asked(what: str) -> Deed:
    def do(world: World) -> None:
        if world.found is not None:
            world.ask(what)

    return deed(f"{what} asked for", do)


DEEDS = st.one_of(
    st.sampled_from([0.0, 0.3, 2.0, 8.0, 30.0, 70.0, 400.0, 2500.0, 7200.0]).map(passes),
    st.builds(killed, st.integers(0, 4), st.booleans()),
    st.builds(garbled, st.sampled_from(_SLOTS), st.sampled_from([b"garbage", b"", _FOREIGN.key_pem])),
    st.sampled_from(
        [
            deed("the Secret is emptied", empty),
            deed("the Secret is deleted", delete),
            deed("one bundle is wiped", lambda world: world.set_bundle("pods", b"", 1)),
            deed("two lead", two_lead),
            deed("a fight", fight),
            Deed("a replica is replaced", renewed),
            asked("ca"),
            asked("leaf"),
        ]
    ),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(DEEDS, min_size=1, max_size=8))
def test_calls_succeed_and_everything_comes_to_rest(history: list[Deed]) -> None:
    """At most two CAs at any time; every leaf that is served is trusted; in the end one CA, one leaf, published."""

    async def story(world: World) -> None:
        world.foreign |= {_FOREIGN.certificate.pem}
        world.cluster.create(configuration("pods", "pods.webhook.ebbtide", "namespaces.webhook.ebbtide"))
        world.cluster.create(configuration("sets"))
        world.lead()
        world.serve()
        world.serve()
        await world.until(world.served_everywhere, within=5)
        await asyncio.sleep(2)
        for each in history:
            await each.do(world)
        world.journal.hooks.clear()
        await asyncio.sleep(120)
        await world.until(world.served_everywhere, within=600)
        await world.until(lambda: world.step == "stable" and world.served_everywhere(), within=2 * CA)
        assert world.found is not None
        holding = world.found.holding
        assert isinstance(holding.signer, Pair)
        assert holding.authorities == (holding.signer.certificate,)

    logs: list[Any] = play(story, leaf_lifetime=LEAF, ca_lifetime=CA)
    assert not [entry for entry in logs if entry["log_level"] in ("error", "critical")]
