"""Template and size → the pool's objects. Pure.

The StatefulSet carries a fingerprint of what was asked for, so that what the server and admission add to it is never
taken for a difference: compared is what was asked for then with what would be asked for now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from ebbtide import vocabulary
from ebbtide.kube.resources import STATEFUL_SETS
from ebbtide.model import CellLabels
from reconciler.scaler import objects
from reconciler.scaler.objects import Object
from reconciler.scaler.size import Size
from reconciler.scaler.template import Template, Wear, claim_templates, pod_template


@dataclass(frozen=True, slots=True)
class Design:
    """What is asked for: the template of pods, those of claims, and the fingerprints of both.

    `volumes` is the fingerprint of which claims there are: pods that mount others cannot be made from the same set.
    """

    pod: Object
    claims: list[Object]
    pod_print: str
    claims_print: str
    volumes: str

    @property
    def annotation(self) -> str:
        return f"{self.pod_print}.{self.claims_print}.{self.volumes}"

    def pods_differ(self, annotation: str) -> bool:
        """Whether pods of a set with that annotation would be others, and can be made so."""
        pod, _, volumes = _parts(annotation)
        return pod != self.pod_print and volumes == self.volumes

    def claims_differ(self, annotation: str) -> bool:
        """Whether claims of a set with that annotation would be others; a set cannot be given others."""
        _, claims, volumes = _parts(annotation)
        return (claims, volumes) != (self.claims_print, self.volumes)

    def only_pods(self, annotation: str) -> str:
        """The annotation after the template of pods was replaced and that of claims was not."""
        _, claims, volumes = _parts(annotation)
        return f"{self.pod_print}.{claims}.{volumes}"


def design(template: Template, pool: str, size: Size, cells: CellLabels) -> Design:
    """What the pool called `pool` is to look like."""
    wear = Wear(labels(pool), {vocabulary.SAFE_TO_EVICT_ANNOTATION: "false"}, pool)
    pod = pod_template(template, wear, size, cells)
    owned = {vocabulary.POOL_LABEL: vocabulary.POOL_SHARED, vocabulary.SERVICE_LABEL: pool}
    claims = claim_templates(template, owned, size)
    names = sorted(str(claim["metadata"]["name"]) for claim in claims)
    return Design(pod, claims, _fingerprint(pod), _fingerprint(claims), _fingerprint(names))


def labels(pool: str) -> dict[str, str]:
    """Of everything that is the pool's, but for its volumes."""
    return objects.labels(pool, pool, vocabulary.POOL_SHARED)


def stateful_set(namespace: str, pool: str, what: Design, replicas: int) -> Object:
    """The set. Claims of ordinals that are scaled away go; those of a set that is deleted stay for the next one."""
    return {
        "apiVersion": STATEFUL_SETS.api_version,
        "kind": STATEFUL_SETS.kind,
        "metadata": {
            "name": pool,
            "namespace": namespace,
            "labels": labels(pool),
            "annotations": {vocabulary.POOL_SPEC_ANNOTATION: what.annotation},
        },
        "spec": {
            "replicas": replicas,
            "serviceName": pool,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "selector": {"matchLabels": {vocabulary.SERVICE_LABEL: pool}},
            "template": what.pod,
            "volumeClaimTemplates": what.claims,
        },
    }


def service(namespace: str, pool: str, port: int) -> Object:
    """The pool's headless Service."""
    return objects.headless_service({"name": pool, "namespace": namespace, "labels": labels(pool)}, pool, port)


def ordinal_of_claim(name: str, pool: str) -> int:
    """The ordinal whose pod a claim of the pool is made for; -1 for a claim that is none."""
    _, found, number = name.rpartition(f"-{pool}-")
    return int(number) if found and number.isascii() and number.isdigit() else -1


def _parts(annotation: str) -> tuple[str, str, str]:
    pod, _, rest = annotation.partition(".")
    claims, _, volumes = rest.partition(".")
    return pod, claims, volumes


def _fingerprint(what: Mapping[str, Any] | list[Any]) -> str:
    return sha256(orjson.dumps(what, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
