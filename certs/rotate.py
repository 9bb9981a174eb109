"""A look at the certificates: read the Secret, ask for the next step, store what comes of it, publish the bundle.

Nothing is remembered between looks that matters: a look that is cut off anywhere is taken up by the next one, in this
process or another. What calls it, how often, and what becomes of its failures is the business of whoever runs it.
"""

from dataclasses import replace
from typing import Final

import structlog

from certs.consult import Consult
from certs.inject import Injector
from certs.live import Configuration, bundles
from certs.look import Answer, Question, Step
from certs.report import Report
from certs.seen import Replica, ready_replica
from certs.spec import Spec
from certs.store import SecretStore
from ebbtide.clock import Clock
from ebbtide.kube.client import Client, Object
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
    """The certificates of one installation; `consult` says what is next. In a dry run steps are told and not taken."""

    def __init__(
        self,
        client: Client,
        secret: SecretStore,
        configurations: Store[Configuration],
        spec: Spec,
        clock: Clock,
        report: Report,
        consult: Consult,
        *,
        dry_run: bool = False,
    ) -> None:
        self._client = client
        self._secret = secret
        self._configurations = configurations
        self._spec = spec
        self._clock = clock
        self._report = report
        self._advice = Advice(consult)
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
            answer = await self._settle()
            if answer.step is not Step.NOTHING:
                return answer.again
            result = await self._injector.publish(answer.bundle)
            if not result.wrote:
                again = answer.again if result.again is None else min(answer.again, result.again)
                return max(again, SHORTEST)
            self._injected_at = self._clock.now()
        return UNTIL_KNOWN

    async def _settle(self) -> Answer:
        """Takes steps until there is nothing to do but to publish and to wait."""
        conflicts = 0
        for _ in range(_MOST_STEPS):
            secret = await self._secret.read()
            answer = await self._ask(secret)
            if answer.body is None:
                self._report.looked(answer)
                return answer
            try:
                await self._secret.write(answer.body, anew=secret is None)
            except (Conflict, NotFound) as error:
                conflicts += 1
                if conflicts == _ATTEMPTS:
                    raise
                log.debug("the Secret has changed, deciding again", reason=str(error))
            else:
                self._report.done(answer)
        raise UnsettledError("every step leads to another one: what is issued is not what is asked for")

    async def _ask(self, secret: Object | None) -> Answer:
        question = Question(
            name=self._secret.name,
            secret=secret,
            bundles=bundles(self._configurations.values()),
            replicas=None,
            injected_at=self._injected_at,
            spec=self._spec,
            now=self._clock.now(),
            dry_run=self._dry_run,
        )
        # Without a Secret replicas matter in any case: one question less.
        if secret is not None:
            answer = await self._advice.ask(question)
            if not answer.replicas_matter:
                return answer
        replicas = await webhook_replicas(self._client, self._secret.namespace)
        return await self._advice.ask(replace(question, replicas=replicas))


class Advice:
    """Asks nobody what has been answered: the same question until the time of the answer, with replicas or without."""

    def __init__(self, consult: Consult) -> None:
        self._consult = consult
        self._given: dict[bool, tuple[Question, Answer]] = {}

    async def ask(self, question: Question) -> Answer:
        """Raises what the one who is consulted raises."""
        kind = question.replicas is None
        if kind in self._given:
            before, answer = self._given[kind]
            if before == replace(question, now=before.now) and before.now <= question.now < answer.until:
                return replace(answer, again=min(answer.again, answer.until - question.now))
        self._given.pop(kind, None)
        answer = await self._consult(question)
        # What is to be stored holds new keys, and is asked for once.
        if answer.body is None:
            self._given[kind] = question, answer
        return answer


async def webhook_replicas(client: Client, namespace: str) -> tuple[Replica, ...]:
    """The replicas of the webhook that get requests, and what each says about itself. Raises KubeError."""
    pods = client.list(PODS, namespace=namespace, label_selector=WEBHOOK_PODS)
    return tuple([replica async for raw in pods if (replica := ready_replica(raw)) is not None])
