"""A look at the certificates: read the Secret, decide, carry out step after step, publish the bundle.

Nothing is remembered between looks that matters: a look that is cut off anywhere is taken up by the next one, in this
process or another. What calls it, how often, and what becomes of its failures is the business of whoever runs it.
"""

from typing import Final

import structlog

from certs.decide import WAITS, Decision, Facts, Step, decide
from certs.inject import Injector
from certs.inspect import Fault, bundle
from certs.issue import Pair
from certs.layout import Found, Holding
from certs.live import Configuration, published
from certs.report import Report
from certs.seen import Replica, ready_replica
from certs.spec import Spec
from certs.steps import carried_out
from certs.store import SecretStore
from ebbtide.clock import Clock
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict, NotFound
from ebbtide.kube.resources import PODS
from ebbtide.kube.store import Store
from ebbtide.vocabulary import WEBHOOK_PODS

log = structlog.stdlib.get_logger(__name__)

# How soon a look is repeated while the first list of configurations is not complete.
UNTIL_KNOWN: Final = 0.5
# What rounding leaves of a wait is no wait.
SHORTEST: Final = 0.1
# Writes of one look that may meet another writer; then somebody else decides when to go on.
_ATTEMPTS: Final = 3
# Each round has published something; after so many the next look goes on.
_MOST_ROUNDS: Final = 5
# As many different steps as can follow each other without waiting, and what conflicts may add.
_MOST_STEPS: Final = 8


class UnsettledError(Exception):
    """A defect: what was issued a moment ago is to be issued again."""


class Rotation:
    """The certificates of one installation. In a dry run steps are told and not taken."""

    def __init__(
        self,
        client: Client,
        secret: SecretStore,
        configurations: Store[Configuration],
        spec: Spec,
        clock: Clock,
        report: Report,
        *,
        dry_run: bool = False,
    ) -> None:
        self._client = client
        self._secret = secret
        self._configurations = configurations
        self._spec = spec
        self._clock = clock
        self._report = report
        self._dry_run = dry_run
        self._injector = Injector(client, configurations, clock, report)
        self._injected_at: float | None = None

    def begin(self) -> None:
        """A new term: others may have led meanwhile."""
        self._injector.forget()
        self._injected_at = None
        self._report.clear()

    async def look(self) -> float:
        """Brings everything as far as it can be brought now; returns the seconds until the next look, at the latest.

        Raises KubeError: what was done until then stays done.
        """
        if not self._configurations.synced:
            return UNTIL_KNOWN
        for _ in range(_MOST_ROUNDS):
            found, decision = await self._settle()
            if found is None or decision.step is not Step.NOTHING:
                return decision.again
            result = await self._injector.publish(bundle(found.holding.authorities))
            if not result.wrote:
                again = decision.again if result.again is None else min(decision.again, result.again)
                return max(again, SHORTEST)
            self._injected_at = self._clock.now()
        return UNTIL_KNOWN

    async def _settle(self) -> tuple[Found | None, Decision]:
        """Takes steps until there is nothing to do but to publish and to wait."""
        conflicts = 0
        for _ in range(_MOST_STEPS):
            found = await self._secret.read()
            now = self._clock.now()
            decision = decide(await self._facts(found), self._spec, now)
            if decision.step in WAITS or self._dry_run:
                self._report.looked(decision, found.holding if found else None)
                return found, decision
            try:
                await self._take(decision, found, now)
            except (Conflict, NotFound) as error:
                conflicts += 1
                if conflicts == _ATTEMPTS:
                    raise
                log.debug("the Secret has changed, deciding again", reason=str(error))
        raise UnsettledError("every step leads to another one: what is issued is not what is asked for")

    async def _take(self, decision: Decision, found: Found | None, now: float) -> None:
        before = Holding() if found is None else found.holding
        await self._secret.write(carried_out(decision, before, self._spec, now), found)
        self._report.done(decision)

    async def _facts(self, found: Found | None) -> Facts:
        return Facts(
            holding=None if found is None else found.holding,
            ours=found is None or found.ours,
            live=published(self._configurations.values()),
            replicas=await self._replicas(found),
            injected_at=self._injected_at,
        )

    async def _replicas(self, found: Found | None) -> tuple[Replica, ...]:
        if not _replicas_matter(found):
            return ()
        return await webhook_replicas(self._client, self._secret.namespace)


async def webhook_replicas(client: Client, namespace: str) -> tuple[Replica, ...]:
    """The replicas of the webhook that get requests, and what each says about itself. Raises KubeError."""
    pods = client.list(PODS, namespace=namespace, label_selector=WEBHOOK_PODS)
    return tuple([replica async for raw in pods if (replica := ready_replica(raw)) is not None])


def _replicas_matter(found: Found | None) -> bool:
    """In most looks nobody has to be asked."""
    if found is None:
        return True
    holding = found.holding
    whole = isinstance(holding.signer, Pair) and not isinstance(holding.old, Fault)
    return found.ours and not (whole and holding.next is None)
