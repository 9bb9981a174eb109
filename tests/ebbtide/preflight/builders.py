"""A cluster on which every check passes, and what a case changes of it."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from ebbtide.config import Settings
from ebbtide.model import Toleration
from ebbtide.preflight.decide import decide
from ebbtide.preflight.finding import Finding, Status
from ebbtide.preflight.programs import Program, known_programs
from ebbtide.preflight.registered import Answer, Endpoints, Registered, ServicePort, WebhookView
from ebbtide.preflight.snapshot import DaemonSetView, Facts, NodeView, Permissions, Policy

NOW = 1772366400.0  # 2026-03-01T12:00:00Z
KEY = "ebbtide/prevent-ca-scale-up"
EXPIRE = "--node-info-cache-expire-time=10m"
AUTOSCALER_IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.31.0"
HANDLER_IMAGE = "public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.0"
SIGNALLING = {"ENABLE_REBALANCE_MONITORING": "true", "TAINT_NODE": "true"}
Raw = dict[str, Any]


def workload(
    image: str, *words: str, command: Iterable[str] = (), env: Mapping[str, Any] | None = None, **container: Any
) -> Raw:
    """A workload with one container; `env` maps names to values, or to a whole `valueFrom`."""
    variables = [
        {"name": name, **({"value": value} if isinstance(value, str) else {"valueFrom": value})}
        for name, value in (env or {}).items()
    ]
    main = {
        "name": "main",
        "image": image,
        "command": list(command),
        "args": list(words),
        "env": variables,
        **container,
    }
    return {
        "metadata": {"namespace": "kube-system", "name": "it"},
        "spec": {"template": {"spec": {"containers": [main]}}},
    }


def programs(raw: Raw, kind: str = "Deployment", replicas: int | None = 1) -> tuple[Program, ...]:
    return tuple(known_programs(kind, raw, raw["spec"]["template"]["spec"], replicas))


def autoscaler(*words: str, **how: Any) -> tuple[Program, ...]:
    """With nothing to complain of but what `words` bring."""
    return programs(workload(AUTOSCALER_IMAGE, "--v=4", EXPIRE, *words, command=["./cluster-autoscaler"], **how))


def handler(env: Mapping[str, Any], *words: str, **how: Any) -> tuple[Program, ...]:
    return programs(workload(HANDLER_IMAGE, *words, env=env, **how), "DaemonSet", None)


def node(name: str, **changes: Any) -> NodeView:
    """A node of group `g` in the zone of its first letter, made by an Auto Scaling group of that zone."""
    plain = NodeView(name, "g", name[0], f"eks.amazonaws.com/nodegroup=g-{name[0]}", "")
    return replace(plain, **changes)


def daemon(name: str, *tolerations: Toleration) -> DaemonSetView:
    return DaemonSetView(f"kube-system/{name}", f"uid-{name}", tolerations)


def policy(text: str) -> tuple[Policy, ...]:
    return (Policy("ConfigMap kube-system/descheduler, key policy.yaml", text),)


def authority(days: int, *more: int) -> str:
    """A bundle in base64: certificates of CAs that end in so many days."""
    return base64.b64encode(b"".join(map(_authority, (days, *more)))).decode()


@cache
def _authority(days: int) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.fromtimestamp(NOW, UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=400))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM)


SERVICE = ServicePort("ebbtide-system", "ebbtide-webhook", 443)
ENTRY = WebhookView("MutatingWebhookConfiguration ebbtide", "zones.ebbtide", authority(90), service=SERVICE)


def registered(*entries: WebhookView, **changes: Any) -> Registered:
    """The good registration with other entries, or with something else behind it."""
    services = {SERVICE: Endpoints(frozenset({443}), ready=2, unready=0)}
    good = Registered(entries or (ENTRY,), authority(90), services, Answer("tidb-serverless", "its zone is open"))
    return replace(good, **changes)


GOOD = Facts(
    version="v1.31.2-eks-7f9249a",
    nodes=(node("a1"), node("a2"), node("b1")),
    programs=autoscaler() + handler(SIGNALLING),
    unread_programs=(),
    daemon_sets=(daemon("proxy", Toleration("", "Exists", "", "")),),
    daemon_nodes={"uid-proxy": {"a1", "b1"}},
    policies=(),
    registered=registered(),
    permissions=Permissions("context test", 12, ()),
    namespaces={"default": {}, "ebbtide-system": {}},
)


def settings(**rebalance: Any) -> Settings:
    return Settings.model_validate(
        {"node-rebalance": {key.replace("_", "-"): value for key, value in rebalance.items()}}
    )


def found(check: str, chosen: Settings | None = None, **changes: Any) -> list[Finding]:
    """The findings of one check on the good cluster with some facts changed."""
    facts = replace(GOOD, **changes)
    return [each for each in decide(facts, chosen or settings(), NOW) if each.check == check]


def statuses(findings: Iterable[Finding]) -> list[str]:
    return [finding.status.value for finding in findings]


def complete(finding: Finding) -> bool:
    """Whether somebody who reads it knows what to do."""
    return finding.status in (Status.PASS, Status.UNKNOWN) or bool(finding.seen and finding.why and finding.cure)
