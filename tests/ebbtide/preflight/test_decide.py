"""Every setting that defeats the block, in the shapes in which it is met, and its neighbours that do not."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.config import Settings
from ebbtide.config.signals import Signals, Sqs
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import EVENTS, NODES
from ebbtide.model import Toleration
from ebbtide.preflight.decide import decide
from ebbtide.preflight.finding import some
from ebbtide.preflight.programs import Program
from ebbtide.preflight.registered import Answer, Endpoints, Registered, WebhookView
from ebbtide.preflight.report import document, failed, lines
from ebbtide.preflight.snapshot import Permissions
from ebbtide.preflight.unread import Unread
from tests.ebbtide.preflight.builders import (
    AUTOSCALER_IMAGE,
    ENTRY,
    EXPIRE,
    GOOD,
    HANDLER_IMAGE,
    KEY,
    NOW,
    SERVICE,
    SIGNALLING,
    authority,
    autoscaler,
    complete,
    daemon,
    found,
    handler,
    node,
    policy,
    programs,
    registered,
    settings,
    statuses,
    workload,
)

CA, NTH = autoscaler(), handler(SIGNALLING)
NODE_NAME = {"NODE_NAME": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
AGENT = programs(workload("x/ebbtide:1", "agent", env=NODE_NAME), "DaemonSet", None)
WITH_QUEUE = Settings(signals=Signals(sqs=Sqs(queue_url="https://sqs.eu-central-1.amazonaws.com/1/spot")))


def policy_1(enabled: str = "true", params: str = "{}") -> str:
    return f"""apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
strategies:
  RemoveDuplicates: {{enabled: true}}
  RemovePodsViolatingNodeTaints:
    enabled: {enabled}
    params: {params}
"""


def policy_2(args: str = "{}", enabled: str = "[RemovePodsViolatingNodeTaints]") -> str:
    return f"""apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: one
  pluginConfig:
  - name: DefaultEvictor
    args: {{nodeFit: true}}
  - name: RemovePodsViolatingNodeTaints
    args: {args}
  plugins:
    deschedule: {{enabled: {enabled}}}
- name: two
  plugins: {{balance: {{enabled: [RemoveDuplicates]}}}}
"""


def key_with(prefix: str) -> Settings:
    """Such a key never passes the configuration; a caller may have made its settings in another way."""
    return settings(prevent_ca_scale_up_taint_key=f"{prefix}-taint.cluster-autoscaler.kubernetes.io/x")


def entries(*bundles: str) -> dict[str, Any]:
    """Registered with these caBundles."""
    return {"registered": registered(*(replace(ENTRY, ca_bundle=bundle) for bundle in bundles))}


def behind(endpoints: Endpoints | Unread | None) -> dict[str, Any]:
    return {"registered": registered(services={SERVICE: endpoints})}


def answered(answer: Answer | Unread) -> dict[str, Any]:
    return {"registered": registered(answer=answer)}


AWAY = Unread("GET /x: 403 Forbidden")
BY_URL = WebhookView("MutatingWebhookConfiguration x", "y", authority(90), url="https://x/mutate")

CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    # --- NR-63 and its kind: what the autoscaler leaves out -----------------------------------------------------
    "startup taint": ("autoscaler-taints", {"programs": autoscaler(f"--startup-taint={KEY}")}, ["fail"]),
    "status taint": ("autoscaler-taints", {"programs": autoscaler(f"--status-taint={KEY}")}, ["fail"]),
    "ignore taint": ("autoscaler-taints", {"programs": autoscaler(f"--ignore-taint={KEY}")}, ["fail"]),
    "as two words": ("autoscaler-taints", {"programs": autoscaler("--ignore-taint", KEY)}, ["fail"]),
    "with one dash": ("autoscaler-taints", {"programs": autoscaler(f"-startup-taint={KEY}")}, ["fail"]),
    "with underscores": ("autoscaler-taints", {"programs": autoscaler(f"--startup_taint={KEY}")}, ["fail"]),
    "the second of several": (
        "autoscaler-taints",
        {"programs": autoscaler("--startup-taint=x", f"--startup-taint={KEY}", "--startup-taint=y")},
        ["fail"],
    ),
    "by a variable": (
        "autoscaler-taints",
        {"programs": autoscaler("--startup-taint=$(TAINT)", env={"TAINT": KEY})},
        ["fail"],
    ),
    "by a variable that is kept elsewhere": (
        "autoscaler-taints",
        {"programs": autoscaler("--startup-taint=$(TAINT)", env={"TAINT": {"configMapKeyRef": {}}})},
        ["warn"],
    ),
    "written as a whole taint": ("autoscaler-taints", {"programs": autoscaler(f"--startup-taint={KEY}=x")}, ["warn"]),
    "another key": ("autoscaler-taints", {"programs": autoscaler("--startup-taint=cilium.io/agent")}, ["pass"]),
    "a longer key": ("autoscaler-taints", {"programs": autoscaler(f"--startup-taint={KEY}2")}, ["pass"]),
    "in a shell": (
        "autoscaler-taints",
        {
            "programs": programs(
                workload(
                    "mirror/ca@sha256:00",
                    command=[
                        "/bin/sh",
                        "-c",
                        f"set -e; exec ./cluster-autoscaler --v=4 \\\n --ignore-taint={KEY} 2>&1 | tee x",
                    ],
                )
            )
        },
        ["fail"],
    ),
    # --- the autoscaler's other flags -----------------------------------------------------------------------------
    "no cache time": (
        "autoscaler-template-cache",
        {"programs": programs(workload(AUTOSCALER_IMAGE, "./cluster-autoscaler"))},
        ["warn"],
    ),
    "ten years": (
        "autoscaler-template-cache",
        {"programs": autoscaler("--node-info-cache-expire-time=87600h")},
        ["warn"],
    ),
    "an hour as Go writes it": (
        "autoscaler-template-cache",
        {"programs": autoscaler("--node-info-cache-expire-time=1h0m0s")},
        ["pass"],
    ),
    "the last one counts": (
        "autoscaler-template-cache",
        {"programs": autoscaler("--node-info-cache-expire-time=24h", EXPIRE)},
        ["pass"],
    ),
    "nonsense": ("autoscaler-template-cache", {"programs": autoscaler("--node-info-cache-expire-time=soon")}, ["warn"]),
    "min size": ("autoscaler-min-size", {"programs": autoscaler("--enforce-node-group-min-size=true")}, ["warn"]),
    "min size, bare": ("autoscaler-min-size", {"programs": autoscaler("--enforce-node-group-min-size")}, ["warn"]),
    "a switch takes no second word": (
        "autoscaler-min-size",
        {"programs": autoscaler("--enforce-node-group-min-size", "false")},
        ["warn"],
    ),
    "min size off": ("autoscaler-min-size", {"programs": autoscaler("--enforce-node-group-min-size=false")}, ["pass"]),
    "slower scans": ("autoscaler-scan-interval", {"programs": autoscaler("--scan-interval=30s")}, ["warn"]),
    "faster scans": ("autoscaler-scan-interval", {"programs": autoscaler("--scan-interval", "5s")}, ["pass"]),
    "default scans": ("autoscaler-scan-interval", {}, ["pass"]),
    "balancing": ("autoscaler-balancing", {"programs": autoscaler("--balance-similar-node-groups")}, ["pass"]),
    "no autoscaler": ("autoscaler", {"programs": ()}, ["warn"]),
    "perhaps an autoscaler": ("autoscaler", {"programs": (), "unread_programs": (Unread("403"),)}, ["unknown"]),
    "scaled to 0": ("autoscaler", {"programs": programs(workload(AUTOSCALER_IMAGE), replicas=0)}, ["warn"]),
    "two of them": ("autoscaler", {"programs": CA + autoscaler()}, ["pass", "pass"]),
    "an image of a mirror with port and digest": (
        "autoscaler",
        {"programs": programs(workload("mirror:5000/x/cluster-autoscaler-arm64:v1@sha256:00"))},
        ["pass"],
    ),
    "another program that speaks of it": (
        "autoscaler",
        {"programs": programs(workload("x/resizer", "--container", "cluster-autoscaler"))},
        ["warn"],
    ),
    "a similar name": ("autoscaler", {"programs": programs(workload("x/cluster-proportional-autoscaler:1"))}, ["warn"]),
    # --- termination handler ----------------------------------------------------------------------------------------
    "in IMDS mode as it should be": ("termination-handler", {}, ["pass"]),
    "none": ("termination-handler", {"programs": CA}, ["pass"]),
    "NR-63 queue mode": (
        "termination-handler",
        {"programs": CA + handler({**SIGNALLING, "ENABLE_SQS_TERMINATION_DRAINING": "true"})},
        ["fail"],
    ),
    "queue mode needs no monitoring": (
        "termination-handler",
        {"programs": handler({"TAINT_NODE": "1", "ENABLE_SQS_TERMINATION_DRAINING": "T"})},
        ["fail"],
    ),
    "NR-63 rebalance draining": (
        "termination-handler",
        {"programs": handler({**SIGNALLING, "ENABLE_REBALANCE_DRAINING": "true"})},
        ["fail"],
    ),
    "NR-63 no node tainting": (
        "termination-handler",
        {"programs": handler({"ENABLE_REBALANCE_MONITORING": "true"})},
        ["fail"],
    ),
    "tainting switched off": (
        "termination-handler",
        {"programs": handler({**SIGNALLING, "TAINT_NODE": "false"})},
        ["fail"],
    ),
    "no monitoring": ("termination-handler", {"programs": handler({"TAINT_NODE": "true"})}, ["fail"]),
    "nothing set at all": ("termination-handler", {"programs": handler({})}, ["fail", "fail"]),
    "dry run": ("termination-handler", {"programs": handler({**SIGNALLING, "DRY_RUN": "true"})}, ["fail"]),
    "by flags": (
        "termination-handler",
        {"programs": handler({}, "--taint-node", "-enable-rebalance-monitoring=1")},
        ["pass"],
    ),
    "a flag wins over a variable": (
        "termination-handler",
        {"programs": handler(SIGNALLING, "--enable-rebalance-draining=true")},
        ["fail"],
    ),
    "kept elsewhere": (
        "termination-handler",
        {"programs": handler({**SIGNALLING, "TAINT_NODE": {"configMapKeyRef": {}}})},
        ["unknown"],
    ),
    "all kept elsewhere": (
        "termination-handler",
        {"programs": handler(SIGNALLING, envFrom=[{"configMapRef": {"name": "x"}}])},
        ["unknown"],
    ),
    "another program raises signals": (
        "termination-handler",
        {"programs": handler({}) + programs(workload("x/ebbtide:1", "agent"), "DaemonSet", None)},
        ["pass"],
    ),
    "another program raises signals, but this one drains": (
        "termination-handler",
        {
            "programs": handler({"ENABLE_REBALANCE_DRAINING": "true"})
            + programs(workload("x/y:1", command=["ebbtide", "agent"]), "DaemonSet", None)
        },
        ["fail"],
    ),
    "one source": ("signal-sources", {}, ["pass"]),
    "two sources": (
        "signal-sources",
        {"programs": NTH + programs(workload("x/ebbtide:1", "agent", "--node-name=x"), "DaemonSet", None)},
        ["warn"],
    ),
    "the reconciler is no source": (
        "signal-sources",
        {"programs": NTH + programs(workload("x/ebbtide:1", "reconciler"))},
        ["pass"],
    ),
    "no source": ("signal-sources", {"programs": CA}, ["warn"]),
    "perhaps a source": ("signal-sources", {"programs": CA, "unread_programs": (Unread("403"),)}, ["unknown"]),
    "a source that nobody knows": ("signal-sources", {"programs": CA, "nodes": (node("a1", signal=True),)}, ["pass"]),
    "no agent": ("agent", {}, []),
    "an agent that is told its node": ("agent", {"programs": AGENT}, ["pass"]),
    "an agent that is told its node by a flag": (
        "agent",
        {"programs": programs(workload("x/ebbtide:1", "agent", "--node-name=$(HOST)"), "DaemonSet", None)},
        ["pass"],
    ),
    "an agent that cannot know its node": (
        "agent",
        {"programs": programs(workload("x/ebbtide:1", "agent"), "DaemonSet", None)},
        ["fail"],
    ),
    # --- descheduler ----------------------------------------------------------------------------------------------
    "no descheduler": ("descheduler", {}, ["pass"]),
    "NR-63 v1alpha1": ("descheduler", {"policies": policy(policy_1())}, ["fail"]),
    "NR-63 v1alpha2": ("descheduler", {"policies": policy(policy_2())}, ["fail"]),
    "v1alpha1, excluded": (
        "descheduler",
        {"policies": policy(policy_1(params=f"{{excludedTaints: [x, {KEY}]}}"))},
        ["pass"],
    ),
    "v1alpha2, excluded": ("descheduler", {"policies": policy(policy_2(f"{{excludedTaints: [{KEY}]}}"))}, ["pass"]),
    "excluded with one value only": (
        "descheduler",
        {"policies": policy(policy_2(f"{{excludedTaints: [{KEY}=1772366400]}}"))},
        ["fail"],
    ),
    "only others excluded": ("descheduler", {"policies": policy(policy_2("{excludedTaints: [x]}"))}, ["fail"]),
    "only others included": ("descheduler", {"policies": policy(policy_2("{includedTaints: [x=y]}"))}, ["pass"]),
    "ours included": ("descheduler", {"policies": policy(policy_2(f"{{includedTaints: [{KEY}]}}"))}, ["fail"]),
    "excluded is null": ("descheduler", {"policies": policy(policy_2("{excludedTaints: null}"))}, ["fail"]),
    "v1alpha1, switched off": ("descheduler", {"policies": policy(policy_1(enabled="false"))}, ["pass"]),
    "v1alpha2, configured but not switched on": (
        "descheduler",
        {"policies": policy(policy_2(enabled="[RemoveDuplicates]"))},
        ["pass"],
    ),
    "v1alpha2 without arguments": (
        "descheduler",
        {
            "policies": policy(
                "kind: DeschedulerPolicy\n"
                "profiles: [{plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}}]\n"
            )
        },
        ["fail"],
    ),
    "the second of two documents": ("descheduler", {"policies": policy(f"a: b\n---\n{policy_2()}")}, ["fail"]),
    "no YAML": ("descheduler", {"policies": policy("kind: DeschedulerPolicy\n  x: [")}, ["unknown"]),
    "not the shape of a policy": (
        "descheduler",
        {"policies": policy("kind: DeschedulerPolicy\nstrategies: [x]")},
        ["unknown"],
    ),
    # --- nodes ------------------------------------------------------------------------------------------------------
    "each group in one zone": ("node-group-zones", {}, ["pass"]),
    "one group over two zones": (
        "node-group-zones",
        {
            "nodes": (
                node("a1", pool="alpha.eksctl.io/nodegroup-name=g"),
                node("b1", pool="alpha.eksctl.io/nodegroup-name=g"),
            )
        },
        ["fail"],
    ),
    "a group of others over two zones": (
        "node-group-zones",
        {"nodes": (node("a1"), node("a2", group="", pool="x=y"), node("b1", group="", pool="x=y"))},
        ["pass"],
    ),
    "nobody says who made them": (
        "node-group-zones",
        {"nodes": (node("a1", pool=""), node("b1", pool=""))},
        ["unknown"],
    ),
    "labels": ("node-labels", {}, ["pass"]),
    "no zone": ("node-labels", {"nodes": (node("a1"), node("a2", zone=""))}, ["warn"]),
    "no group beside others of the same group": (
        "node-labels",
        {"nodes": (node("a1"), node("a2", group=""))},
        ["warn"],
    ),
    "other people's nodes": (
        "node-labels",
        {"nodes": (node("a1"), node("x", group="", pool="x=y", zone=""))},
        ["pass"],
    ),
    "no group at all": ("node-labels", {"nodes": (node("a1", group=""),)}, ["warn"]),
    "NR-63 Karpenter": ("karpenter", {"nodes": (node("a1"), node("a2", karpenter="default", pool=""))}, ["warn"]),
    "no Karpenter": ("karpenter", {}, ["pass"]),
    # --- daemon sets ------------------------------------------------------------------------------------------------
    "one that is kept out": (
        "daemon-sets",
        {"daemon_sets": (daemon("logs"),), "daemon_nodes": {"uid-logs": {"a1"}}},
        ["warn"],
    ),
    "one on other nodes": (
        "daemon-sets",
        {"daemon_sets": (daemon("logs"),), "daemon_nodes": {"uid-logs": {"x"}}},
        ["pass"],
    ),
    "tolerates our key": (
        "daemon-sets",
        {
            "daemon_sets": (daemon("logs", Toleration(KEY, "Exists", "", "NoSchedule")),),
            "daemon_nodes": {"uid-logs": {"a1"}},
        },
        ["pass"],
    ),
    "tolerates another effect": (
        "daemon-sets",
        {
            "daemon_sets": (daemon("logs", Toleration("", "Exists", "", "NoExecute")),),
            "daemon_nodes": {"uid-logs": {"a1"}},
        },
        ["warn"],
    ),
    "pods could not be read": ("daemon-sets", {"daemon_nodes": Unread("403")}, ["unknown"]),
    # --- the installation -------------------------------------------------------------------------------------------
    "a version of EKS": ("cluster-version", {"version": "v1.30.0-eks-036c24b"}, ["pass"]),
    "too old": ("cluster-version", {"version": "v1.29.15"}, ["fail"]),
    "two digits are no decimals": ("cluster-version", {"version": "v1.9.0"}, ["fail"]),
    "a version of nobody": ("cluster-version", {"version": "unknown"}, ["unknown"]),
    "its namespace": ("namespace", {}, ["pass"]),
    "no namespace": ("namespace", {"namespaces": {"default": {}}}, ["warn"]),
    "everything permitted": ("permissions", {}, ["pass"]),
    "something essential missing": (
        "permissions",
        {"permissions": Permissions("x", 2, (Need("patch", NODES, "to taint a zone"),))},
        ["fail"],
    ),
    "a courtesy missing": (
        "permissions",
        {"permissions": Permissions("x", 2, (Need("create", EVENTS, "to tell", essential=False),))},
        ["warn"],
    ),
    # --- the webhook ------------------------------------------------------------------------------------------------
    "webhook": ("webhook", {}, ["pass"]),
    "no webhook": ("webhook", {"registered": Registered((), None, {}, AWAY)}, ["warn"]),
    "no authority": ("webhook", entries(""), ["fail"]),
    "an authority that has ended": ("webhook", entries(authority(-1)), ["fail"]),
    "one of two has ended": ("webhook", entries(authority(-1, 90)), ["pass"]),
    "no certificate": ("webhook", entries("Zm9v"), ["fail"]),
    "no base64": ("webhook", entries("-"), ["fail"]),
    "no webhook, no question": ("webhook-answer", {"registered": Registered((), None, {}, AWAY)}, []),
    "no webhook, no Service": ("webhook-service", {"registered": Registered((), None, {}, AWAY)}, []),
    "no webhook, no CA": ("webhook-authority", {"registered": Registered((), None, {}, AWAY)}, []),
    "the CA of the Secret": ("webhook-authority", {}, ["pass"]),
    "another CA": ("webhook-authority", entries(authority(80)), ["fail"]),
    "another CA in one of two": ("webhook-authority", entries(authority(90), authority(80)), ["fail"]),
    "the CA of the Secret and an old one": ("webhook-authority", entries(authority(80, 90)), ["pass"]),
    "without the next CA": ("webhook-authority", {"registered": registered(authority=authority(90, 80))}, ["warn"]),
    "only the next CA": ("webhook-authority", {"registered": registered(authority=authority(80, 90))}, ["fail"]),
    "a bundle that is told of already": ("webhook-authority", entries("-"), ["pass"]),
    "no Secret": ("webhook-authority", {"registered": registered(authority=None)}, ["warn"]),
    "a Secret without a CA": ("webhook-authority", {"registered": registered(authority="")}, ["unknown"]),
    "a Secret that may not be read": ("webhook-authority", {"registered": registered(authority=AWAY)}, ["unknown"]),
    "two endpoints": ("webhook-service", {}, ["pass"]),
    "one of two ready": ("webhook-service", behind(Endpoints({443}, 1, 1)), ["pass"]),
    "none ready": ("webhook-service", behind(Endpoints({443}, 0, 2)), ["fail"]),
    "no endpoint": ("webhook-service", behind(Endpoints({443}, 0, 0)), ["fail"]),
    "another port": ("webhook-service", behind(Endpoints({8443}, 0, 0)), ["fail"]),
    "no port": ("webhook-service", behind(Endpoints(frozenset(), 0, 0)), ["fail"]),
    "no Service": ("webhook-service", behind(None), ["fail"]),
    "a Service that may not be read": ("webhook-service", behind(AWAY), ["unknown"]),
    "by URL": ("webhook-service", {"registered": registered(BY_URL, services={})}, ["unknown"]),
    "by URL and by Service": ("webhook-service", {"registered": registered(BY_URL, ENTRY)}, ["unknown", "pass"]),
    "a pod as it has to be": ("webhook-answer", {}, ["pass"]),
    "a pod as it was sent": ("webhook-answer", answered(Answer("x", "y", ("there is no toleration z",))), ["fail"]),
    "a pod that is refused": ("webhook-answer", answered(Answer("x", "", refused="failed calling")), ["fail"]),
    "a pod that may not be created": ("webhook-answer", answered(AWAY), ["unknown"]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_found(case: str) -> None:
    """Each problem is named with its cure, and what looks like one but is none passes."""
    check, changes, expected = CASES[case]
    findings = found(check, **changes)
    assert statuses(findings) == expected
    assert all(complete(finding) for finding in findings)


@pytest.mark.parametrize("prefix", ["startup", "status", "ignore"])
def test_a_key_that_the_autoscaler_leaves_out_is_a_problem(prefix: str) -> None:
    """NR-63, whatever autoscaler runs here, if any."""
    assert statuses(found("prevent-taint-key", key_with(prefix))) == ["fail"]
    assert statuses(found("prevent-taint-key", key_with(prefix), programs=())) == ["fail"]


@pytest.mark.parametrize(
    ("check", "changes"),
    [("webhook", {"ca_bundle": ""}), ("webhook-authority", {"ca_bundle": authority(80)}), ("webhook-service", {})],
)
def test_what_a_broken_webhook_does_depends_on_its_failure_policy(check: str, changes: dict[str, Any]) -> None:
    """Pods without the exclusion, or no pods."""
    for fails, consequence in ((False, "created without the exclusion"), (True, "failurePolicy Fail")):
        entry = replace(ENTRY, fails=fails, **changes)
        (finding,) = found(check, registered=registered(entry, services={SERVICE: None}))
        assert consequence in finding.why


def test_groups_outside_of_the_patterns_are_not_judged() -> None:
    spanning = (node("a1", pool="x=y", group="test"), node("b1", pool="x=y", group="test"), node("a2"))
    assert statuses(found("node-group-zones", settings(node_groups=["g"]), nodes=spanning)) == ["pass"]
    assert statuses(found("node-group-zones", nodes=spanning)) == ["fail"]


def test_a_slow_autoscaler_that_the_configuration_knows_of_passes() -> None:
    chosen = settings(cluster_autoscaler_scan_interval="30s")
    assert statuses(found("autoscaler-scan-interval", chosen, programs=autoscaler("--scan-interval=30s"))) == ["pass"]


def test_a_missing_namespace_is_told_with_the_command_that_makes_it() -> None:
    (finding,) = found("namespace", Settings(namespace="other"))
    assert finding.status == "warn"
    assert "kubectl create namespace other" in finding.cure


def test_on_a_good_cluster_everything_passes() -> None:
    findings = decide(GOOD, settings(), NOW)
    assert {finding.status.value for finding in findings} == {"pass"}
    assert not failed(findings)


def test_where_nothing_can_be_read_nothing_fails() -> None:
    """A 403 is no problem of the cluster: the checks are unknown, and say why."""
    blind = type(GOOD)(AWAY, AWAY, (), (AWAY,), AWAY, AWAY, AWAY, AWAY, AWAY, AWAY)
    findings = [each for each in decide(blind, settings(), NOW) if each.check != "prevent-taint-key"]
    assert {finding.status.value for finding in findings} == {"unknown"}
    assert all("403" in finding.seen for finding in findings)


def test_the_text_keeps_names_whole_and_the_document_keeps_its_keys() -> None:
    findings = found("autoscaler-taints", programs=autoscaler(f"--startup-taint={KEY}"))
    text = "\n".join(lines(findings, 60))
    assert f"--startup-taint={KEY}" in text
    assert text.startswith("FAIL     autoscaler-taints  Deployment kube-system/it,")
    assert "why:  " in text
    assert "cure: remove" in text
    assert text.endswith("summary: 0 pass, 0 warn, 1 fail, 0 unknown")
    (check,) = document(findings)["checks"]
    assert list(check) == ["name", "status", "seen", "why", "cure", "objects"]
    assert check["objects"] == ["Deployment kube-system/it"]


def test_what_a_cluster_says_does_not_steer_the_terminal() -> None:
    """Flags of other people's programs may hold anything."""
    text = "\n".join(lines(found("autoscaler-scan-interval", programs=autoscaler("--scan-interval=\x1b[2J\n9h")), 200))
    assert "\x1b" not in text
    assert "scans every \N{REPLACEMENT CHARACTER}[2J 9h" in text


def test_of_many_names_the_first_are_told() -> None:
    assert some(map(str, range(7))) == "0, 1, 2, 3, 4 and 2 more"
    assert some(["a"]) == "a"


def test_a_handler_is_known_by_its_executable_too() -> None:
    known = programs(workload("mirror/nth:1", command=["/node-termination-handler"]), "DaemonSet", None)
    assert [program.workload for program in known] == ["DaemonSet kube-system/it"]
    assert programs(workload(HANDLER_IMAGE.replace("aws-node", "other")), "DaemonSet", None) == ()


@pytest.mark.parametrize(
    ("check", "running", "status"),
    [
        ("signal-sources", CA, "pass"),
        ("signal-sources", CA + AGENT, "pass"),
        ("signal-sources", CA + NTH, "warn"),
        ("signal-sources", CA + AGENT + NTH, "warn"),
        ("termination-handler", CA + handler({}), "pass"),
    ],
    ids=["alone", "with the agent", "with a handler", "with both", "and a handler that raises nothing"],
)
def test_a_queue_is_a_source_of_signals(check: str, running: tuple[Program, ...], status: str) -> None:
    """Agent and queue tell a notice once between them; a handler beside it need not raise signals."""
    findings = found(check, WITH_QUEUE, programs=running)
    assert statuses(findings) == [status]
    assert check != "signal-sources" or "from queue spot" in findings[0].seen


def test_one_node_of_one_group_is_counted_as_one() -> None:
    seen = [each.seen for check in ("node-labels", "node-group-zones") for each in found(check, nodes=(node("a1"),))]
    assert seen == [
        "1 node of 1 node group, each with group and zone",
        "1 Auto Scaling group with nodes, each in one zone",
    ]


def test_permissions_that_lack_have_a_line_each() -> None:
    """However many there are: an account of its own lacks all of them. Programs get them as a list."""
    lacking = tuple(Need("patch", NODES, f"to do the thing number {number}") for number in range(23))
    findings = found("permissions", permissions=Permissions("account x", 25, lacking))
    text = list(lines(findings, 10_000))
    assert text[0].endswith("account x lacks 23 permissions of 25")
    assert [line.strip() for line in text[1:24]] == [f"- patch nodes (to do the thing number {n})" for n in range(23)]
    assert max(map(len, text)) < 120
    (check,) = document(findings)["checks"]
    assert check["objects"] == list(map(str, lacking))
    assert len(check["seen"]) < 60
