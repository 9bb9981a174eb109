"""Why a pod that waits for a node avoids the zones that it does, and whether it is admitted again.

From the functions that admission and re-admission share, on lists read just now.
"""

from collections.abc import Mapping
from typing import Any

from ebbtide.config import Settings
from ebbtide.exclusion.carried import carried_by_us, difference
from ebbtide.exclusion.decide import Exclusion, Rules
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.exclusion.zones import BlockedZones, GroupZones
from ebbtide.kube.errors import Forbidden
from ebbtide.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts, PodFacts, claim_facts, namespace_facts, volume_facts
from ebbtide.vocabulary import BLOCK_ANNOTATION
from reconciler.explain.explanation import SWITCHED_OFF, Explanation, Facts, pod_document, without_effect
from reconciler.inquiry import Inquiry
from reconciler.readmission.decide import WORDS, History, PendingPod, decide, judge_pod
from reconciler.readmission.snapshot import Snapshot, Watched, WebhookFacts, pending_pod, webhook_facts
from reconciler.rebalance.plan import Deed, HeldBack

Raw = Mapping[str, Any]


class WaitingPods:
    """Explains pods without a node. Raises KubeError."""

    def __init__(self, inquiry: Inquiry, settings: Settings) -> None:
        self._inquiry = inquiry
        self._settings = settings

    async def explain(self, pod: PodFacts, raw: Raw, nodes: Store[NodeFacts]) -> Explanation:
        """The pod, of which `raw` is the object."""
        waiting = pending_pod(raw, self._inquiry.labels)
        zones = BlockedZones(nodes, self._settings.node_rebalance.prevent_ca_scale_up_taint_key)
        watched, unknown = await self._watched(pod)
        snapshot = Snapshot(watched, zones, Rules.of(self._settings))
        exclusion = snapshot.exclusion(waiting)
        held, readmit = self._readmission(waiting, exclusion, snapshot, watched)
        if difference(waiting.traits, exclusion) is not None:
            unknown.append("how long ago other pods of its owner were admitted again; the leader paces that")
        facts = _facts(pod, waiting, exclusion, zones.groups, raw) | {"unknown": unknown}
        space = (await self._inquiry.metadata(NAMESPACES, pod.namespace))["annotations"]
        facts["warnings"] += without_effect(f"namespace {pod.namespace}", space.get(BLOCK_ANNOTATION))
        return Explanation(
            f"pod {pod.key}", "waiting", _reason(waiting, exclusion), facts, readmit=readmit, held_back=held
        )

    def _readmission(
        self, pod: PendingPod, exclusion: Exclusion, snapshot: Snapshot, watched: Watched
    ) -> tuple[tuple[HeldBack, ...], bool]:
        """What holds the pod's re-admission back, and whether it happens now."""
        if difference(pod.traits, exclusion) is None:
            return (), False
        namespace = watched.namespaces.get(pod.traits.namespace)
        never = judge_pod(pod, ignored=namespace is not None and namespace.ignored)
        if never or pod.owner is None:
            return (HeldBack(Deed.READMIT, pod.key, never),), False
        if not self._settings.node_rebalance.run:
            return (SWITCHED_OFF,), False
        plan = decide(snapshot.owner(pod.owner, History(), 0.0))
        waits = [each.wait for each in plan.waiting if each.pod.uid == pod.uid]
        return tuple(HeldBack(Deed.READMIT, pod.key, WORDS[wait]) for wait in waits), not waits

    async def _watched(self, pod: PodFacts) -> tuple[Watched, list[str]]:
        unknown: list[str] = []
        labels = self._inquiry.labels
        pods = await self._inquiry.collect(
            PODS,
            lambda each: pending_pod(each, labels),
            namespace=pod.namespace,
            field_selector="spec.nodeName=,status.phase=Pending",
        )
        namespaces = await self._inquiry.collect(NAMESPACES, namespace_facts)
        try:
            webhooks = await self._webhooks()
        except Forbidden as error:
            unknown.append(f"whether a webhook of ebbtide is installed: {error}")
            webhooks = Store(webhook_facts)
        volumes = await self._volumes(pod) if self._settings.webhook.volume_zone_awareness and pod.claims else None
        return Watched(pods, namespaces, webhooks, volumes), unknown

    async def _webhooks(self) -> Store[WebhookFacts]:
        selector = self._settings.certs.webhook_configuration_selector
        return await self._inquiry.collect(MUTATING_WEBHOOKS, webhook_facts, label_selector=selector)

    async def _volumes(self, pod: PodFacts) -> BoundVolumes:
        claims = await self._inquiry.collect(PERSISTENT_VOLUME_CLAIMS, claim_facts, namespace=pod.namespace)
        return BoundVolumes(claims, await self._inquiry.collect(PERSISTENT_VOLUMES, volume_facts))


def _reason(pod: PendingPod, exclusion: Exclusion) -> str:
    if exclusion.skipped is not None:
        words = f"it is kept out of no zone: {exclusion.skipped.words}"
    elif exclusion.zones:
        words = f"it has to avoid {', '.join(exclusion.zones)}, blocked for its node group"
    else:
        words = "no zone that it could use is blocked"
    differs = difference(pod.traits, exclusion)
    return f"it waits for a node; {words}" + ("" if differs is None else f"; as it is, {differs}")


def _facts(
    pod: PodFacts, waiting: PendingPod, exclusion: Exclusion, zones: Mapping[str, GroupZones], raw: Raw
) -> Facts:
    named = waiting.traits.groups() or zones.keys()
    return {
        "pod": pod_document(pod),
        "avoid": list(exclusion.zones),
        "carries": sorted(carried_by_us(waiting.traits)),
        "skipped": None if exclusion.skipped is None else str(exclusion.skipped),
        "warnings": [caution.words for caution in exclusion.warnings],
        "groups": [
            {"group": name, "zones": sorted(zones[name].live), "blocked": sorted(zones[name].blocked)}
            for name in sorted(named)
            if name in zones
        ],
        "scheduler": _scheduler_says(raw),
    }


def _scheduler_says(raw: Raw) -> str:
    """The scheduler's own words on why the pod has no node."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    found = (each for each in conditions if each.get("type") == "PodScheduled" and each.get("status") == "False")
    return next((str(each.get("message") or "") for each in found), "")
