"""Evicts the pods of the nodes that are to be emptied; nobody waits for it.

A reconcile only says which nodes are to be emptied and which no longer. Here each of them has a watch on its own pods,
and whenever something changes (a pod comes or goes, an answer arrives, a retry falls due) the pure `due` picks the
pods to ask for next. So a slow pod, a budget or a hanging request never holds up another node. Before the first pod of
a node is asked to go, and whenever the watch of nodes may have missed something, the node itself is asked for: see
`standing`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError, NotFound
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NODES, PODS
from ebbtide.kube.store import Store
from ebbtide.model import Cell, CellLabels, NodeFacts, PodFacts, node_facts, pod_facts
from reconciler.rebalance.answers import Answer, Result, read_answer
from reconciler.rebalance.evictions import Attempt, Candidate, due, holding_volume, judge_pod
from reconciler.rebalance.left import Left, LeftNodes
from reconciler.rebalance.plan import Eviction, soonest
from reconciler.rebalance.snapshot import PodSurroundings
from reconciler.rebalance.standing import Standing, Watched, is_still

log = structlog.stdlib.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Emptied:
    """A node being emptied, since which signal, and the watch on its pods.

    `held` has the UIDs of pods of which it was told that a volume keeps them there.
    """

    node: NodeFacts
    cell: Cell
    since: float
    pods: Store[PodFacts]
    watch: asyncio.Task[None]
    standing: Standing
    held: set[str] = field(default_factory=set)


class Told(Protocol):
    """Hears of what becomes of pods."""

    def asked(self, asked: "Asked") -> None:
        """An eviction was answered."""

    def held(self, node: NodeFacts, pod: PodFacts, why: str) -> None:
        """A pod is left on its node because of a volume. Told once for each signal."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One eviction and its answer, for the report; `still_meant` unless the node has been left meanwhile."""

    node: NodeFacts
    cell: Cell
    pod: PodFacts
    answer: Answer
    still_meant: bool = True


class Drain:
    """Sends evictions for the nodes given to `empty` until `leave` is said; `run` does the work.

    `nodes` are those that the reconciles decide on. `own_pod` is namespace/name of this process's pod, evicted after
    all others.
    """

    def __init__(
        self,
        client: Client,
        nodes: Store[NodeFacts],
        surroundings: PodSurroundings,
        rules: NodeRebalance,
        told: Told,
        own_pod: str = "",
    ) -> None:
        self.name = "drain"
        self._client = client
        self._known = nodes
        self._surroundings = surroundings
        self._rules = rules
        self._told = told
        self._own_pod = own_pod
        self._nodes: dict[str, Emptied] = {}
        self._left = LeftNodes()
        self._attempts: dict[str, Attempt] = {}
        # Requests without an answer, by pod UID. They count until it is there, whatever the watch tells meanwhile.
        self._in_flight: dict[str, Candidate] = {}
        self._paused_until = 0.0
        self._changed = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._ending = False
        surroundings.on_change(self._changed.set)

    def empty(self, eviction: Eviction, cell: Cell) -> None:
        """Begins, or goes on, to evict the pods of a node. Only while `run` runs."""
        node = eviction.node
        known = self._nodes.get(node.name)
        if known is not None and known.node.uid == node.uid:
            known.node, known.cell, known.since = node, cell, eviction.since
        else:
            self.leave(node.name)
            self._nodes[node.name] = self._watched(node, cell, eviction.since)
        self._changed.set()

    def leave(self, node: str) -> None:
        """Evicts no further pod of the node; what was accepted goes on by itself."""
        emptied = self._nodes.pop(node, None)
        if emptied is None:
            return
        self._part_with(emptied)
        for pod in emptied.pods.values():
            # A request under way is waited for, so that the pod is not asked twice should its node come back.
            if pod.uid not in self._in_flight:
                self._attempts.pop(pod.uid, None)
        self._changed.set()

    def _part_with(self, emptied: Emptied) -> None:
        """Ends the watch of its pods, unless they count on."""
        going = {pod.uid for pod in emptied.pods.values() if self._is_under_way(pod)}
        if going and self._rules.max_evictions_in_flight:
            self._left.add(Left(emptied.cell.group, emptied.pods, emptied.watch, going))
        else:
            emptied.watch.cancel()

    async def run(self) -> None:
        """Sends what is due whenever something changes, until cancelled."""
        self._ending = False
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._surroundings.wait_known()
                while True:
                    self._changed.clear()
                    self._left.sweep()
                    next_in = self._send_due(self._tasks)
                    for emptied in self._nodes.values():
                        emptied.standing.spend()
                    await self._something_changed(next_in)
        finally:
            self._tasks = None
            self._nodes.clear()
            self._left.clear()
            self._attempts.clear()
            self._in_flight.clear()

    async def finish(self) -> None:
        """Sends nothing more and waits for the answers to what was sent."""
        self._ending = True
        if self._asking:
            await asyncio.wait(self._asking)

    def _watched(self, node: NodeFacts, cell: Cell, since: float) -> Emptied:
        if self._tasks is None:
            raise RuntimeError("Drain.empty needs Drain.run to be running")
        store: Store[PodFacts] = Store(pod_facts)
        standing = Standing()
        store.subscribe(self._pod_changed)
        store.subscribe(lambda old, new: standing.newcomer() if _is_new(old, new) else None)
        # A list and not only a watch of the node's own pods: memory stays small however many pods the cluster has.
        reflector = Reflector(self._client, PODS, store, field_selector=f"spec.nodeName={node.name}")
        task = self._tasks.create_task(reflector.run(), name=f"pods of {node.name}")
        return Emptied(node, cell, since, store, task, standing)

    def _pod_changed(self, old: PodFacts | None, new: PodFacts | None) -> None:
        if old is not None and (new is None or new.uid != old.uid) and old.uid not in self._in_flight:
            self._attempts.pop(old.uid, None)
        self._changed.set()

    async def _something_changed(self, next_in: float | None) -> None:
        try:
            # Never for what rounding leaves of a pause: it would ring before the clock has moved.
            async with asyncio.timeout(None if next_in is None else max(next_in, 0.001)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _send_due(self, tasks: asyncio.TaskGroup) -> float | None:
        """Starts the requests that are due; returns the seconds until the next is, None without any."""
        monotonic = asyncio.get_running_loop().time()
        if self._ending:
            return None
        if self._paused_until > monotonic:
            return self._paused_until - monotonic
        certain, doubtful = self._candidates(monotonic)
        questions = [self._question(pods, tasks, monotonic) for pods in doubtful]
        what = due(certain, self._attempts, self._leaving(), self._rules, monotonic)
        for candidate in what.now:
            self._in_flight[candidate.pod.uid] = candidate
            self._attempts[candidate.pod.uid] = replace(self._attempt(candidate.pod), in_flight=True)
            node = self._nodes[candidate.pod.node].node
            asking = tasks.create_task(self._ask(candidate, node), name=f"evict {candidate.pod.key}")
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        return soonest((what.next_in, *questions))

    def _candidates(self, monotonic: float) -> tuple[list[Candidate], list[list[Candidate]]]:
        """The pods that may be asked to go, and by node those of which it is not known what their node is.

        Among the first are those asked for already, even if they are terminating by now. Pods of a node that gives no
        answer for too long are among both.
        """
        certain = list(self._in_flight.values())
        doubtful = list[list[Candidate]]()
        watched, some_wait = self._watched_nodes(), False
        for emptied in self._nodes.values():
            pods = list(self._of(emptied))
            if pods and not emptied.standing.is_confirmed(watched):
                doubtful.append(pods)
            if emptied.standing.is_sure(watched, monotonic):
                certain += pods
            else:
                some_wait = some_wait or bool(pods)
        return [candidate for candidate in certain if not (some_wait and candidate.own)], doubtful

    def _of(self, emptied: Emptied) -> Iterator[Candidate]:
        """The pods of a node that are to go and were not asked for."""
        if not emptied.pods.synced:
            return
        pods = tuple(emptied.pods.values())
        around = self._surroundings.of(emptied.node, pods)
        for pod in pods:
            if pod.uid in self._in_flight:
                continue
            if not judge_pod(pod, around, self._rules):
                yield Candidate(pod, emptied.cell, emptied.since, own=pod.key == self._own_pod)
            elif pod.uid not in emptied.held and (why := holding_volume(pod, around, self._rules)):
                emptied.held.add(pod.uid)
                self._told.held(emptied.node, pod, why)

    def _watched_nodes(self) -> Watched:
        return Watched(self._known.stream, self._known.age())

    def _question(self, pods: Sequence[Candidate], tasks: asyncio.TaskGroup, monotonic: float) -> float | None:
        """Asks for the node of these pods if one of them is due; returns the seconds until there is more to do."""
        what = due(pods, self._attempts, self._leaving(), self._rules, monotonic)
        if not what.now:
            return what.next_in
        emptied = self._nodes[pods[0].pod.node]
        if emptied.standing.may_ask(monotonic):
            emptied.standing.ask(self._watched_nodes(), monotonic)
            tasks.create_task(self._ask_for(emptied), name=f"look at {emptied.node.name} again")
        return soonest((what.next_in, emptied.standing.next_in(monotonic)))

    async def _ask_for(self, emptied: Emptied) -> None:
        """Reads a node, and notes whether it is still the one that is meant."""
        meant, standing, loop = emptied.node, emptied.standing, asyncio.get_running_loop()
        try:
            raw = await self._client.get(NODES, meant.name)
        except NotFound:
            standing.denied(loop.time())
        except KubeError as error:
            standing.unanswered(loop.time())
            log.warning("evictions wait, their node could not be read", node=meant.name, answer=str(error))
        else:
            self._known.observe(raw)
            found = node_facts(raw, CellLabels())
            if is_still(meant, found, self._rules.rebalance_signal_taint_key):
                standing.confirmed()
            else:
                standing.denied(loop.time())
                log.info("evictions wait, their node has changed", node=meant.name, meant=meant.uid, found=found.uid)
        self._changed.set()

    def _leaving(self) -> Counter[str]:
        """By group, the pods that are on their way out: accepted by us, or terminating for whatever reason.

        Of nodes that are emptied no longer only the former.
        """
        groups = dict(self._left.going())
        for emptied in self._nodes.values():
            leaving = (pod for pod in emptied.pods.values() if pod.deleting or self._attempt(pod).accepted)
            groups.update((pod.uid, emptied.cell.group) for pod in leaving)
        return Counter(group for uid, group in groups.items() if uid not in self._in_flight)

    def _is_under_way(self, pod: PodFacts) -> bool:
        """Whether the pod was asked to go, and has said yes or nothing yet."""
        return pod.uid in self._in_flight or self._attempt(pod).accepted

    def _attempt(self, pod: PodFacts) -> Attempt:
        return self._attempts.get(pod.uid, Attempt())

    async def _ask(self, candidate: Candidate, node: NodeFacts) -> None:
        pod = candidate.pod
        failure: KubeError | None = None
        try:
            await self._client.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
        except KubeError as error:
            failure = error
        attempt = self._attempt(pod)
        answer = read_answer(failure, attempt.failures, self._rules)
        self._note(candidate, attempt, answer)
        emptied = self._nodes.get(node.name)
        meant = emptied is not None and emptied.node.uid == node.uid
        self._told.asked(Asked(node, candidate.cell, pod, answer, still_meant=meant))

    def _note(self, candidate: Candidate, attempt: Attempt, answer: Answer) -> None:
        monotonic = asyncio.get_running_loop().time()
        uid = candidate.pod.uid
        self._in_flight.pop(uid, None)
        if answer.result is not Result.ACCEPTED:
            self._left.refused(uid)
        emptied = self._nodes.get(candidate.pod.node)
        known = None if emptied is None else emptied.pods.get(candidate.pod.key)
        if answer.pause_all:
            self._paused_until = max(self._paused_until, monotonic + answer.retry_in)
        if known is None or known.uid != uid:
            self._attempts.pop(uid, None)
        else:
            self._attempts[uid] = Attempt(
                failures=attempt.failures + 1 if answer.retry_in else 0,
                retry_at=monotonic + answer.retry_in,
                accepted=answer.result is Result.ACCEPTED,
            )
        self._changed.set()


def _is_new(old: PodFacts | None, new: PodFacts | None) -> bool:
    return new is not None and (old is None or old.uid != new.uid)
