"""Looking behind the registrations of the webhook on an embedded cluster: from the objects to the findings."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ebbtide.config import Settings
from ebbtide.config.admission import Certs
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, ServerFault
from ebbtide.preflight.decide import decide
from ebbtide.preflight.registered import WebhookView, chosen
from ebbtide.preflight.report import document
from ebbtide.preflight.snapshot import Asked, read
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.time import simulate
from tests.ebbtide.preflight.builders import NOW, authority, complete

HOME = "ebbtide-system"
Object = dict[str, Any]
KINDS = {
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
}


def entry(name: str = "pods", **changes: Any) -> Object:
    service = {"namespace": HOME, "name": "ebbtide-webhook", "path": "/mutate", "port": 443}
    return {
        "name": f"{name}.ebbtide.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"service": service, "caBundle": authority(90)},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        **changes,
    }


def configuration(*entries: Object) -> Object:
    metadata = {"name": "ebbtide-pods", "labels": {"ebbtide/ca-injection": "enabled"}}
    return {"kind": "MutatingWebhookConfiguration", "metadata": metadata, "webhooks": list(entries)}


def in_home(kind: str, name: str, **body: Any) -> Object:
    labels = body.pop("labels", {})
    return {"kind": kind, "metadata": {"name": name, "namespace": HOME, "labels": labels}, **body}


def endpoint(number: int, *, ready: bool | None = True) -> Object:
    conditions = {} if ready is None else {"conditions": {"ready": ready}}
    reference = {"kind": "Pod", "name": f"p{number}", "uid": f"uid-{number}"}
    return {"addresses": [f"10.0.0.{number}"], "targetRef": reference, **conditions}


def slices(*endpoints: Object, name: str = "one", port: str = "admission") -> Object:
    return in_home(
        "EndpointSlice",
        name,
        labels={"kubernetes.io/service-name": "ebbtide-webhook"},
        addressType="IPv4",
        ports=[{"name": port, "port": 8443}],
        endpoints=list(endpoints),
    )


def secret(bundle: str) -> Object:
    keys = {"tls.key": base64.b64encode(b"nobody's business").decode(), "tls.crt": authority(60)}
    return in_home("Secret", "ebbtide-webhook-tls", type="kubernetes.io/tls", data={"ca.crt": bundle, **keys})


SERVICE = in_home("Service", "ebbtide-webhook", spec={"ports": [{"name": "admission", "port": 443}]})
WORKING = (configuration(entry()), SERVICE, slices(endpoint(1), endpoint(2)), secret(authority(90)))


@dataclass
class Probe:
    """Answers as it is told, and remembers where it was asked."""

    lacking: list[str] = field(default_factory=list)
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)

    async def __call__(self, namespace: str) -> tuple[str, list[str]]:
        self.asked.append(namespace)
        if self.error is not None:
            raise self.error
        return "a reason", self.lacking


@dataclass
class Look:
    """What is said about the webhook, the statuses by check."""

    statuses: dict[str, list[str]]
    text: str
    sent: set[tuple[str, str]]


def furnish(cluster: Cluster, *objects: Object) -> None:
    """The namespace of the release, and these objects."""
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    cluster.create(*({"apiVersion": KINDS.get(each["kind"], "v1"), **each} for each in objects))


def look(
    *objects: Object,
    probe: Probe | None = None,
    faults: Mapping[str, int] | None = None,
    settings: Settings = Settings(),  # noqa: B008 - frozen
) -> Look:
    """On a cluster with these objects, which answers GETs of some paths with failures."""
    answer = probe or Probe()

    async def main() -> Look:
        async with (
            Cluster() as cluster,
            Client(cluster.access(), field_manager="test", user_agent="test") as client,
        ):
            furnish(cluster, *objects)
            for path, status in (faults or {}).items():
                cluster.faults.inject(Answer(status, message="by order of the test"), When("GET", path))
            facts = await read(client, settings, Asked(client, "test", ()), answer)
            findings = [each for each in decide(facts, settings, NOW) if each.check.startswith("webhook")]
            assert all(complete(finding) for finding in findings)
            statuses: dict[str, list[str]] = {}
            for each in findings:
                statuses.setdefault(each.check, []).append(each.status.value)
            sent = {(verb.verb, verb.resource) for verb in client.sent}
            return Look(statuses, str(document(findings)), sent)

    return simulate(main())


ALL_PASS = {check: ["pass"] for check in ("webhook", "webhook-authority", "webhook-service", "webhook-answer")}


def test_a_webhook_that_works_passes() -> None:
    """The question is asked once, in a namespace whose pods are sent to it; of the Secret only the CA is kept."""
    probe = Probe()
    said = look(*WORKING, probe=probe)
    assert said.statuses == ALL_PASS
    assert probe.asked == ["default"]
    assert "2 of 2 endpoints ready" in said.text


def test_without_a_registration_nothing_is_looked_for() -> None:
    """No Secret is read, no pod created."""
    probe = Probe()
    said = look(SERVICE, probe=probe)
    assert said.statuses == {"webhook": ["warn"]}
    assert probe.asked == []
    assert not {"secrets", "services", "endpointslices"} & {resource for _, resource in said.sent}


def test_certificates_of_somebody_else_are_not_looked_for() -> None:
    """The chart then registers without the label by which the CA is injected, and the Secret has any name."""
    labels = {"app.kubernetes.io/part-of": "ebbtide"}
    of_chart = configuration(entry()) | {"metadata": {"name": "ebbtide-pods", "labels": labels}}
    said = look(of_chart, *WORKING[1:], settings=Settings(certs=Certs(mode="files")))
    assert said.statuses == ALL_PASS | {"webhook-authority": ["unknown"]}
    assert "secrets" not in {resource for _, resource in said.sent}


BEHIND: dict[str, tuple[tuple[Object, ...], str, str]] = {
    "no Service": ((), "fail", "there is no such Service"),
    "no slice": ((SERVICE,), "fail", "no pod serves it"),
    "none ready": ((SERVICE, slices(endpoint(1, ready=False))), "fail", "none of 1 endpoints is ready"),
    "nothing said about readiness": ((SERVICE, slices(endpoint(1, ready=None))), "pass", "1 of 1"),
    "one of two slices": (
        (SERVICE, slices(endpoint(1, ready=False)), slices(endpoint(2), name="two")),
        "pass",
        "1 of 2 endpoints ready",
    ),
    "two families of addresses": (
        (SERVICE, slices(endpoint(1)), slices(endpoint(1), name="two")),
        "pass",
        "1 of 1 endpoints ready",
    ),
    "endpoints of another port": ((SERVICE, slices(endpoint(1), port="metrics")), "fail", "no pod serves it"),
    "another Service's endpoints": (
        (SERVICE, slices(endpoint(1)) | {"metadata": {"name": "x", "namespace": HOME}}),
        "fail",
        "no pod serves it",
    ),
    "a Service of another port": (
        (in_home("Service", "ebbtide-webhook", spec={"ports": [{"port": 80}]}),),
        "fail",
        "the Service has other ports (80)",
    ),
}


@pytest.mark.parametrize(("objects", "status", "words"), BEHIND.values(), ids=BEHIND.keys())
def test_what_is_behind_the_service(objects: tuple[Object, ...], status: str, words: str) -> None:
    said = look(configuration(entry()), secret(authority(90)), *objects)
    assert said.statuses == ALL_PASS | {"webhook-service": [status]}
    assert words in said.text


def test_another_ca_than_that_of_the_secret_is_a_problem() -> None:
    said = look(*WORKING[:-1], secret(authority(80)))
    assert said.statuses == ALL_PASS | {"webhook-authority": ["fail"]}


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        ("*/secrets/*", "webhook-authority"),
        ("*/services/*", "webhook-service"),
        ("*/endpointslices", "webhook-service"),
        ("/api/v1/namespaces", "webhook-answer"),
    ],
)
def test_what_may_not_be_read_is_unknown(path: str, unknown: str) -> None:
    """The others are judged, as ever."""
    said = look(*WORKING, faults={path: 403})
    assert said.statuses == ALL_PASS | {unknown: ["unknown"]}
    assert "by order of the test" in said.text


REFUSALS: dict[str, tuple[Exception, str]] = {
    "it cannot be called": (
        ServerFault("create pods", 500, "InternalError", 'failed calling webhook "pods.ebbtide.dev": no route'),
        "fail",
    ),
    "somebody else's cannot": (
        ServerFault("create pods", 500, "InternalError", 'failed calling webhook "pods.example.com": no route'),
        "unknown",
    ),
    "not permitted": (Forbidden("create pods", 403, "Forbidden", "cannot create resource"), "unknown"),
}


@pytest.mark.parametrize(("error", "status"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_pod_that_is_refused(error: Exception, status: str) -> None:
    """Whoever refuses it for another reason says nothing about the webhook."""
    said = look(*WORKING, probe=Probe(error=error))
    assert said.statuses == ALL_PASS | {"webhook-answer": [status]}
    assert str(error).rpartition(": ")[2] in said.text


def test_a_pod_that_comes_back_as_it_was_sent() -> None:
    said = look(*WORKING, probe=Probe(lacking=["there is no toleration x"]))
    assert said.statuses == ALL_PASS | {"webhook-answer": ["fail"]}
    assert "there is no toleration x" in said.text


def test_a_registration_for_other_objects_is_not_asked_about_pods() -> None:
    """Neither is one of which no namespace sends pods."""
    sets = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["statefulsets"], "operations": ["CREATE"]}]
    for changes in ({"rules": sets}, {"namespaceSelector": {"matchLabels": {"of": "nobody"}}}):
        probe = Probe()
        said = look(configuration(entry(**changes)), *WORKING[1:], probe=probe)
        assert said.statuses == ALL_PASS | {"webhook-answer": ["unknown"]}
        assert probe.asked == []


NAME = "kubernetes.io/metadata.name"
SELECTORS: dict[str, tuple[Object | None, str]] = {
    "none": (None, "a"),
    "empty": ({}, "a"),
    "a label": ({"matchLabels": {"guard": "on"}}, "b"),
    "two labels": ({"matchLabels": {"guard": "on", NAME: "a"}}, ""),
    "in": ({"matchExpressions": [{"key": NAME, "operator": "In", "values": ["b", "c"]}]}, "b"),
    "not in": ({"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["a"]}]}, "b"),
    "not in, without the label": ({"matchExpressions": [{"key": "guard", "operator": "NotIn", "values": ["on"]}]}, "a"),
    "exists": ({"matchExpressions": [{"key": "guard", "operator": "Exists"}]}, "b"),
    "does not exist": ({"matchExpressions": [{"key": "guard", "operator": "DoesNotExist"}]}, "a"),
    "both": (
        {"matchLabels": {"guard": "on"}, "matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["b"]}]},
        "c",
    ),
}


@pytest.mark.parametrize(("selector", "first"), SELECTORS.values(), ids=SELECTORS.keys())
def test_the_pod_is_created_where_pods_are_sent_to_the_webhook(selector: Object | None, first: str) -> None:
    labels = {"a": {NAME: "a"}, "b": {NAME: "b", "guard": "on"}, "c": {NAME: "c", "guard": "on"}}
    view = WebhookView("x", "y", "", namespaces=selector)
    assert chosen([view], labels, labels) == first
    sets = WebhookView("x", "y", "", for_pods=False)
    assert chosen([sets, view], labels, labels) == first
