"""Evicts the pods of the nodes that are to be emptied; nobody waits for it.

A reconcile only says which nodes are to be emptied and which no longer. Here each of them has a watch on its own pods,
and whenever something changes (a pod comes or goes, an answer arrives, a retry falls due) the pure `due` picks the
pods to ask for next. So a slow pod, a budget or a hanging request never holds up another node. Before the first pod of
a node is asked to go, and whenever the watch of nodes may have missed something, the node itself is asked for: see
`confirmation`.
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
from reconciler.rebalance.confirmation import Confirmation, NodeWatch, is_still
from reconciler.rebalance.evictions import Attempt, Candidate, due, holding_volume, judge_pod
from reconciler.rebalance.left import Left, LeftNodes
from reconciler.rebalance.plan import Eviction, soonest
from reconciler.rebalance.snapshot import PodSurroundings

log = structlog.stdlib.get_logger(__name__)


@dataclass(slots=True, eq=False)
class DrainingNode:
    """A node being emptied, since which signal, and the watch on its pods.

    `held` has the UIDs of pods of which it was told that a volume keeps them there.
    """

    node: NodeFacts
    cell: Cell
    since: float
    pods: Store[PodFacts]
    watch: asyncio.Task[None]
    confirmation: Confirmation
    held: set[str] = field(default_factory=set)


class Listener(Protocol):
    """Hears of what becomes of pods."""

    def answered(self, eviction: "AnsweredEviction") -> None:
        """An eviction was answered."""

    def held(self, node: NodeFacts, pod: PodFacts, why: str) -> None:
        """A pod is left on its node because of a volume. Told once for each signal."""


@dataclass(frozen=True, slots=True)
class AnsweredEviction:
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
        listener: Listener,
        own_pod: str = "",
    ) -> None:
        self.name = "drain"
        self._client = client
        self._node_store = nodes
        self._surroundings = surroundings
        self._rules = rules
        self._listener = listener
        self._own_pod = own_pod
        self._nodes: dict[str, DrainingNode] = {}
        self._left = LeftNodes()
        self._attempts: dict[str, Attempt] = {}
        # Requests without an answer, by pod UID. They count until it is there, whatever the watch tells meanwhile.
        self._in_flight: dict[str, Candidate] = {}
        self._paused_until = 0.0
        self._changed = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._requests: set[asyncio.Task[None]] = set()
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
            self._nodes[node.name] = self._watch(node, cell, eviction.since)
        self._changed.set()

    def leave(self, node: str) -> None:
        """Evicts no further pod of the node; what was accepted goes on by itself."""
        draining = self._nodes.pop(node, None)
        if draining is None:
            return
        self._part_with(draining)
        for pod in draining.pods.values():
            # A request under way is waited for, so that the pod is not asked twice should its node come back.
            if pod.uid not in self._in_flight:
                self._attempts.pop(pod.uid, None)
        self._changed.set()

    def _part_with(self, draining: DrainingNode) -> None:
        """Ends the watch of its pods, unless they count on."""
        going = {pod.uid for pod in draining.pods.values() if self._is_under_way(pod)}
        if going and self._rules.max_evictions_in_flight:
            self._left.add(Left(draining.cell.group, draining.pods, draining.watch, going))
        else:
            draining.watch.cancel()

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
                    for draining in self._nodes.values():
                        draining.confirmation.spend()
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
        if self._requests:
            await asyncio.wait(self._requests)

    def _watch(self, node: NodeFacts, cell: Cell, since: float) -> DrainingNode:
        if self._tasks is None:
            raise RuntimeError("Drain.empty needs Drain.run to be running")
        store: Store[PodFacts] = Store(pod_facts)
        confirmation = Confirmation()
        store.subscribe(self._pod_changed)
        store.subscribe(lambda old, new: confirmation.newcomer() if _is_new(old, new) else None)
        # A list and not only a watch of the node's own pods: memory stays small however many pods the cluster has.
        reflector = Reflector(self._client, PODS, store, field_selector=f"spec.nodeName={node.name}")
        task = self._tasks.create_task(reflector.run(), name=f"pods of {node.name}")
        return DrainingNode(node, cell, since, store, task, confirmation)

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
        questions = [self._confirm_when_due(pods, tasks, monotonic) for pods in doubtful]
        what = due(certain, self._attempts, self._leaving(), self._rules, monotonic)
        for candidate in what.now:
            self._in_flight[candidate.pod.uid] = candidate
            self._attempts[candidate.pod.uid] = replace(self._attempt(candidate.pod), in_flight=True)
            node = self._nodes[candidate.pod.node].node
            request = tasks.create_task(self._evict(candidate, node), name=f"evict {candidate.pod.key}")
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
        return soonest((what.next_in, *questions))

    def _candidates(self, monotonic: float) -> tuple[list[Candidate], list[list[Candidate]]]:
        """The pods that may be asked to go, and by node those of which it is not known what their node is.

        Among the first are those asked for already, even if they are terminating by now. Pods of a node that gives no
        answer for too long are among both.
        """
        certain = list(self._in_flight.values())
        doubtful = list[list[Candidate]]()
        watched, some_wait = self._node_watch(), False
        for draining in self._nodes.values():
            pods = list(self._evictable(draining))
            if pods and not draining.confirmation.is_confirmed(watched):
                doubtful.append(pods)
            if draining.confirmation.is_sure(watched, monotonic):
                certain += pods
            else:
                some_wait = some_wait or bool(pods)
        return [candidate for candidate in certain if not (some_wait and candidate.own)], doubtful

    def _evictable(self, draining: DrainingNode) -> Iterator[Candidate]:
        """The pods of a node that are to go and were not asked for."""
        if not draining.pods.synced:
            return
        pods = tuple(draining.pods.values())
        around = self._surroundings.of(draining.node, pods)
        for pod in pods:
            if pod.uid in self._in_flight:
                continue
            if not judge_pod(pod, around, self._rules):
                yield Candidate(pod, draining.cell, draining.since, own=pod.key == self._own_pod)
            elif pod.uid not in draining.held and (why := holding_volume(pod, around, self._rules)):
                draining.held.add(pod.uid)
                self._listener.held(draining.node, pod, why)

    def _node_watch(self) -> NodeWatch:
        return NodeWatch(self._node_store.stream, self._node_store.age())

    def _confirm_when_due(self, pods: Sequence[Candidate], tasks: asyncio.TaskGroup, monotonic: float) -> float | None:
        """Asks for the node of these pods if one of them is due; returns the seconds until there is more to do."""
        what = due(pods, self._attempts, self._leaving(), self._rules, monotonic)
        if not what.now:
            return what.next_in
        draining = self._nodes[pods[0].pod.node]
        if draining.confirmation.may_ask(monotonic):
            draining.confirmation.ask(self._node_watch(), monotonic)
            tasks.create_task(self._confirm(draining), name=f"look at {draining.node.name} again")
        return soonest((what.next_in, draining.confirmation.next_in(monotonic)))

    async def _confirm(self, draining: DrainingNode) -> None:
        """Reads a node, and notes whether it is still the one that is meant."""
        meant, confirmation, loop = draining.node, draining.confirmation, asyncio.get_running_loop()
        try:
            raw = await self._client.get(NODES, meant.name)
        except NotFound:
            confirmation.denied(loop.time())
        except KubeError as error:
            confirmation.unanswered(loop.time())
            log.warning("evictions wait, their node could not be read", node=meant.name, answer=str(error))
        else:
            self._node_store.observe(raw)
            found = node_facts(raw, CellLabels())
            if is_still(meant, found, self._rules.rebalance_signal_taint_key):
                confirmation.confirmed()
            else:
                confirmation.denied(loop.time())
                log.info("evictions wait, their node has changed", node=meant.name, meant=meant.uid, found=found.uid)
        self._changed.set()

    def _leaving(self) -> Counter[str]:
        """By group, the pods that are on their way out: accepted by us, or terminating for whatever reason.

        Of nodes that are emptied no longer only the former.
        """
        groups = dict(self._left.going())
        for draining in self._nodes.values():
            leaving = (pod for pod in draining.pods.values() if pod.deleting or self._attempt(pod).accepted)
            groups.update((pod.uid, draining.cell.group) for pod in leaving)
        return Counter(group for uid, group in groups.items() if uid not in self._in_flight)

    def _is_under_way(self, pod: PodFacts) -> bool:
        """Whether the pod was asked to go, and has said yes or nothing yet."""
        return pod.uid in self._in_flight or self._attempt(pod).accepted

    def _attempt(self, pod: PodFacts) -> Attempt:
        return self._attempts.get(pod.uid, Attempt())

    async def _evict(self, candidate: Candidate, node: NodeFacts) -> None:
        pod = candidate.pod
        failure: KubeError | None = None
        try:
            await self._client.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
        except KubeError as error:
            failure = error
        attempt = self._attempt(pod)
        answer = read_answer(failure, attempt.failures, self._rules)
        self._note(candidate, attempt, answer)
        draining = self._nodes.get(node.name)
        meant = draining is not None and draining.node.uid == node.uid
        self._listener.answered(AnsweredEviction(node, candidate.cell, pod, answer, still_meant=meant))

    def _note(self, candidate: Candidate, attempt: Attempt, answer: Answer) -> None:
        monotonic = asyncio.get_running_loop().time()
        uid = candidate.pod.uid
        self._in_flight.pop(uid, None)
        if answer.result is not Result.ACCEPTED:
            self._left.refused(uid)
        draining = self._nodes.get(candidate.pod.node)
        known = None if draining is None else draining.pods.get(candidate.pod.key)
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
