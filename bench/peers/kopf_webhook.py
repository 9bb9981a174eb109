"""A kopf operator whose webhook does to pods what ours does; the cluster is that of $KUBECONFIG.

    kopf_webhook.py PORT FOLDER GROUP ZONE,ZONE

FOLDER has tls.crt, tls.key and ca.crt. The blocked zones are arguments: how they become known costs it nothing. Run by
the interpreter of `kopf_environment`, as a file: nothing of this repository can be imported there.
"""

import sys
from pathlib import Path
from typing import Any

import kopf  # type: ignore[import-not-found] # installed in the environment made for it only

PORT, FOLDER, GROUP, ZONES = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
_GROUP_LABEL, _ZONE_LABEL = "serverless.tidbcloud.com/node", "topology.kubernetes.io/zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_EFFECT = "NoSchedule"


def configure(settings: Any, **_: object) -> None:
    """The server, and no registrations: nobody calls it but the measurement."""
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        port=PORT,
        certfile=FOLDER / "tls.crt",
        pkeyfile=FOLDER / "tls.key",
        cafile=FOLDER / "ca.crt",
    )


def mutate(spec: Any, labels: Any, patch: Any, **_: object) -> None:
    """Called by kopf for every review."""
    group = labels.get("ebbtide/node-group")
    if not group or spec.get("nodeName"):
        return
    if _GROUP_LABEL not in spec.get("nodeSelector", {}):
        patch.spec["nodeSelector"] = {_GROUP_LABEL: group}
    tolerations = spec.get("tolerations", [])
    if not any(tolerates(each, group) for each in tolerations):
        ours = {"key": _GROUP_LABEL, "operator": "Equal", "value": group, "effect": _EFFECT}
        patch.spec["tolerations"] = [*tolerations, ours]
    if group == GROUP:
        terms = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {}).get("nodeSelectorTerms")
        excluded = {"key": _ZONE_LABEL, "operator": "NotIn", "values": ZONES}
        wanted = [exclude(term, excluded) for term in terms or [{"matchExpressions": []}]]
        patch.spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": wanted}}}
        patch.metadata.annotations["ebbtide/blocked-zones"] = ",".join(ZONES)


def tolerates(toleration: dict[str, str], group: str) -> bool:
    exists = toleration.get("operator") == "Exists"
    return (
        (toleration.get("key") == _GROUP_LABEL or (exists and not toleration.get("key")))
        and (exists or toleration.get("value") == group)
        and toleration.get("effect") in (None, _EFFECT)
    )


def exclude(term: dict[str, Any], expression: dict[str, Any]) -> dict[str, Any]:
    return {**term, "matchExpressions": [*term.get("matchExpressions", ()), expression]} if term else term


if __name__ == "__main__":
    kopf.on.login()(kopf.login_with_kubeconfig)
    kopf.on.startup()(configure)
    kopf.on.mutate("pods", operation="CREATE", labels={"ebbtide/pool": kopf.PRESENT})(mutate)
    kopf.run(standalone=True, clusterwide=True)
