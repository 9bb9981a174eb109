"""Does the API server ask the webhook, and is the answer the one that it ought to be? For `helm test`, in a pod, and
for `ebbtide preflight`.

A pod of the dedicated pool is created by dry run: it passes through admission like any other, and is never stored. What
comes back must be what the webhook's own functions make of it, from the cluster as it is: pinning in any case, and the
exclusion of zones where some are blocked. Both are looked at anew until they agree: zones change, and a webhook that
was registered a moment ago has to get its certificate first.
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import jsonpatch

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.exclusion.fields import mapping
from ebbtide.kube.access import Access
from ebbtide.kube.answers import failure
from ebbtide.kube.client import Client
from ebbtide.kube.resources import NODES, PODS
from ebbtide.model import node_facts
from ebbtide.service.arguments import Common, add_common
from ebbtide.service.ending import exit_code
from ebbtide.service.metrics import product_version
from ebbtide.service.program import execute
from webhook.explain import admission_of

Raw = Mapping[str, Any]

NAME: Final = "ebbtide-probe"
# For a cluster without a node group: the pod is stored nowhere, and need not fit any node.
_NO_GROUP: Final = "none"
# A webhook that has just been installed is called once the leader has made and published its CA.
_WITHIN: Final = 90.0
_LOOK_EVERY: Final = 2.0
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class ProbeError(EbbtideError):
    """The pod did not come back as it should have."""


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m webhook.probe`; returns the exit code: 0 when admission works, 1 when it does not."""
    parser = argparse.ArgumentParser(prog="python -m webhook.probe", allow_abbrev=False)
    add_common(parser)
    parser.add_argument("--namespace", required=True, metavar="NAME", help="where the pod is created, by dry run")
    parser.add_argument("--within", type=float, default=_WITHIN, metavar="SECONDS", help="how long it is waited for")
    return exit_code("probe", lambda: start(parser.parse_args(argv)))


def start(arguments: argparse.Namespace) -> None:
    """Raises EbbtideError."""
    common = Common.of(arguments)
    common.configure_logs()

    async def program(_stopping: asyncio.Event) -> None:
        said = await run(common.settings(), await common.access(), arguments.namespace, arguments.within)
        sys.stdout.write(f"{said}\n")

    execute(program)


async def run(settings: Settings, access: Access, namespace: str, within: float = _WITHIN) -> str:
    """What was found, in a sentence. Raises ProbeError after `within` seconds, KubeError for what cannot be asked."""
    async with Client(access, field_manager=NAME, user_agent=f"{NAME}/{product_version()}") as client:
        reason, lacking = await ask(client, settings, namespace, within)
    if lacking:
        raise ProbeError(f"not admitted as it has to be ({reason}): {'; '.join(lacking)}")
    return f"admitted as it has to be: {reason}"


async def ask(client: Client, settings: Settings, namespace: str, within: float) -> tuple[str, list[str]]:
    """What the webhook had to do with the pod, and in words what of it is missing after `within` seconds, if anything
    still is. Raises KubeError for what cannot be asked."""
    # The pod has no volumes: nobody has to be let near them.
    webhook = settings.webhook.model_copy(update={"volume_zone_awareness": False})
    plain = settings.model_copy(update={"webhook": webhook})
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        pod = manifest(settings, namespace, await _group(client, settings))
        expected = await admission_of(client, plain, pod)
        lacking = list(missing(jsonpatch.apply_patch(pod, expected["patch"]), await _admitted(client, pod)))
        if not lacking or loop.time() > deadline:
            return expected["reason"], lacking
        await asyncio.sleep(_LOOK_EVERY)


def manifest(settings: Settings, namespace: str, group: str) -> dict[str, Any]:
    """A pod of the dedicated pool in that node group, which any namespace lets in."""
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {vocabulary.POOL_LABEL: vocabulary.POOL_DEDICATED},
        },
        "spec": {
            "nodeSelector": {settings.node_rebalance.node_group_label: group},
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "probe",
                    "image": NAME,
                    "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def missing(expected: Raw, found: Raw) -> Iterator[str]:
    """What the pod that came back lacks of the expected one, in words. Others may have added to it."""
    for field in ("labels", "annotations"):
        yield from _lacking(field, mapping(expected["metadata"], field), mapping(found["metadata"], field))
    for toleration in expected["spec"].get("tolerations") or ():
        if toleration not in (found["spec"].get("tolerations") or ()):
            yield f"there is no toleration {toleration}"
    wanted, got = _terms(expected), _terms(found)
    if wanted != got:
        yield f"the required node affinity is {got}, not {wanted}"


def _lacking(field: str, expected: Raw, found: Raw) -> Iterator[str]:
    for key, value in expected.items():
        if found.get(key) != value:
            yield f"{field} have {key}={found.get(key)}, not {value}"


def _terms(pod: Raw) -> Any:
    required = mapping(mapping(mapping(pod["spec"], "affinity"), "nodeAffinity"), _REQUIRED)
    return required.get("nodeSelectorTerms")


async def _group(client: Client, settings: Settings) -> str:
    """A group in which some but not all zones are blocked, where there is one; else any."""
    rules = settings.node_rebalance
    live, blocked = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    async for raw in client.list(NODES):
        node = node_facts(raw, rules.labels)
        if node.cell is None or node.deleting:
            continue
        live[node.cell.group].add(node.cell.zone)
        if node.taint(rules.prevent_ca_scale_up_taint_key, vocabulary.PREVENT_TAINT_EFFECT) is not None:
            blocked[node.cell.group].add(node.cell.zone)
    partly = sorted(group for group, zones in blocked.items() if zones < live[group])
    return next(iter([*partly, *sorted(live)]), _NO_GROUP)


async def _admitted(client: Client, pod: Raw) -> Raw:
    """The pod as the API server would store it. Raises KubeError when it refuses."""
    path = PODS.path(pod["metadata"]["namespace"])
    answer = await client.request("POST", path, params={"dryRun": "All"}, body=pod)
    if answer.status != 201:
        raise failure(f"create pods in {pod['metadata']['namespace']} by dry run", answer)
    admitted: Raw = answer.json()
    return admitted


if __name__ == "__main__":
    sys.exit(main())
