"""The metrics reference has what agent and queue show; the page about signals has what they write and ask for."""

import json
import re
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry

from ebbtide import vocabulary
from ebbtide.agent import report as agent
from ebbtide.agent.imds import Result as Answer
from ebbtide.kube.resources import EVENTS, NODES
from ebbtide.notices import REASONS, Kind
from reconciler.signals import report as queue
from reconciler.signals.decide import Result
from reconciler.signals.envelope import INTERRUPTION, REBALANCE

DOCS = Path(__file__).resolve().parents[2] / "docs"
METRICS = (DOCS / "metrics.md").read_text(encoding="utf-8")
PAGE = (DOCS / "signals.md").read_text(encoding="utf-8")
MANIFEST = list(yaml.safe_load_all("\n---\n".join(re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL))))
VALUES = (*Kind, *Answer, *agent.Stored, *Result)


def names(registry: CollectorRegistry) -> set[str]:
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}


def listed(prefix: str) -> set[str]:
    return set(re.findall(rf"^\| `({prefix}\w+)` \|", METRICS, flags=re.MULTILINE))


def test_every_metric_of_signals_is_listed() -> None:
    of_agent, of_queue = CollectorRegistry(), CollectorRegistry()
    agent.Report(of_agent)
    queue.Report(of_queue, None)
    assert names(of_agent) == listed("agent_")
    assert names(of_queue) == listed("signals_")


def test_every_word_on_a_node_is_told() -> None:
    for word in (vocabulary.REBALANCE_NOTICE_ANNOTATION, vocabulary.INTERRUPTION_NOTICE_ANNOTATION):
        assert f"`{word}`" in PAGE
    assert REASONS[Kind.INTERRUPTION] in PAGE


def test_the_agent_s_role_grants_what_it_asks_for_and_nothing_else() -> None:
    """Reading and patching nodes, and events."""
    (role,) = [each for each in MANIFEST if each["kind"] == "ClusterRole"]
    granted = {
        (verb, group, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {
        ("get", NODES.group, NODES.plural),
        ("patch", NODES.group, NODES.plural),
        ("create", EVENTS.group, EVENTS.plural),
    }


def test_the_daemon_set_tells_the_agent_its_node() -> None:
    (daemons,) = [each for each in MANIFEST if each["kind"] == "DaemonSet"]
    (container,) = daemons["spec"]["template"]["spec"]["containers"]
    (name,) = [each for each in container["env"] if each["name"] == "NODE_NAME"]
    assert name["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


def test_the_rule_lets_through_what_is_read() -> None:
    """And the queue's attributes are what the command line takes: strings, two of them JSON once more."""
    pattern, attributes, policy = (
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    )
    assert set(pattern["detail-type"]) == {REBALANCE, INTERRUPTION}
    assert all(isinstance(value, str) for value in attributes.values())
    assert json.loads(attributes["RedrivePolicy"])["maxReceiveCount"] * int(attributes["VisibilityTimeout"]) >= int(
        attributes["MessageRetentionPeriod"]
    )
    (statement,) = json.loads(attributes["Policy"])["Statement"]
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert policy["Statement"][0]["Resource"] == statement["Resource"]
