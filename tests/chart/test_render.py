"""What the chart renders: the same each time, valid, locked down, and registered in a way that stops nobody."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from certs.spec import spec_of
from ebbtide.config import Settings
from ebbtide.config.admission import Certs, Webhook
from ebbtide.config.units import parse_duration
from ebbtide.service.supervisor import GRACE
from tests.chart.helm import CHART, NAMESPACE, Helm, Object, Values, only
from webhook.main import grace

SCHEMAS = "1.37"
EVERYTHING: dict[str, Any] = {
    "agent": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
    "admissionPolicy": {"enabled": True},
    "commonLabels": {"team": "storage"},
    "imagePullSecrets": [{"name": "registry"}],
    "config": {"worker-scaler": {"run": True}},
    "webhook": {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "podAnnotations": {"a": "b"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "serviceAccount": {"annotations": {"a": "b"}},
        "configurationAnnotations": {"a": "b"},
    },
}
MODES: dict[str, Values] = {
    "self-managed": EVERYTHING,
    "cert-manager": EVERYTHING | {"certificates": {"mode": "cert-manager"}},
    "existing": EVERYTHING | {"certificates": {"mode": "existing", "existingSecret": "mine"}},
}
VERSIONS = ("helm4", "helm3")
WAYS_IN = ("guarded-pods", "pods", "stateful-sets")
# Kinds of others, whose schemas are not Kubernetes' own.
OTHERS = ("cert-manager.io/", "monitoring.coreos.com/")


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm("helm4", tmp_path)


@pytest.fixture(params=MODES)
async def objects(request: pytest.FixtureRequest, helm: Helm) -> list[Object]:
    return await helm.render(MODES[request.param])


@pytest.mark.parametrize("mode", MODES)
async def test_rendered_twice_it_is_the_same_to_the_byte_with_either_helm(mode: str, tmp_path: Path) -> None:
    """As tools that compare manifests need it."""
    rendered: list[list[Object]] = []
    for version in VERSIONS:
        each = Helm(version, tmp_path / version)
        first, second = [await each.template(MODES[mode]) for _ in range(2)]
        assert first.code == 0, first.err
        assert first.out == second.out
        rendered.append(sorted(filter(None, yaml.safe_load_all(first.out)), key=_order))
    assert rendered[0] == rendered[1]


@pytest.mark.parametrize(("kubernetes", "code"), [("1.30.0", 0), ("1.30.0-eks-036c24b", 0), ("1.29.15", 1)])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_kubernetes_that_is_too_old_is_refused(
    version: str, kubernetes: str, code: int, tmp_path: Path
) -> None:
    """And the oldest that is not, as it is and as a cloud calls its own."""
    said = await Helm(version, tmp_path).template({}, f"--kube-version={kubernetes}")
    assert said.code == code, said.err
    assert ("kubeVersion" in said.err) == bool(code)


def _order(each: Object) -> tuple[str, ...]:
    """Helm 3 and 4 put kinds that they do not know in other places."""
    return each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", VERSIONS)
async def test_lint_finds_nothing(version: str, mode: str, tmp_path: Path) -> None:
    said = await Helm(version, tmp_path).run("lint", "--strict", str(CHART), values=MODES[mode])
    assert said.code == 0, said.out + said.err


def test_nothing_is_looked_up_random_or_made_by_hooks() -> None:
    for template in (CHART / "templates").rglob("*"):
        if template.is_dir():
            continue
        text = template.read_text(encoding="utf-8")
        actions = " ".join(re.findall(r"\{\{.*?\}\}", text, flags=re.DOTALL))
        found = re.findall(r"\b(?:lookup|gen[A-Z]\w+|rand[A-Z]\w+|uuidv4|now|htpasswd|getHostByName)\b", actions)
        assert not found, template
        assert set(re.findall(r"helm\.sh/hook: (\w+)", text)) <= {"test"}
        assert "caBundle:" not in text


def test_every_object_is_valid(objects: list[Object]) -> None:
    for each in objects:
        if not each["apiVersion"].startswith(OTHERS):
            kubernetes_validate.validate(each, SCHEMAS, strict=True)


def test_every_object_says_what_it_belongs_to(objects: list[Object]) -> None:
    for each in objects:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "ebbtide"
        assert labels["app.kubernetes.io/instance"] == "ebbtide"
        assert labels["team"] == "storage"


def pods(objects: list[Object]) -> list[tuple[str, Object]]:
    templates = [(each["kind"], each["spec"]["template"]) for each in objects if "template" in each.get("spec", {})]
    return [*templates, *((each["kind"], each) for each in objects if each["kind"] == "Pod")]


def test_every_container_is_locked_down(objects: list[Object]) -> None:
    found = pods(objects)
    assert [kind for kind, _ in found].count("Deployment") == 2
    for _, pod in found:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= container["resources"].keys()
            assert "memory" in container["resources"]["limits"]


async def test_pods_spread_softly_and_are_bound_to_no_zone(helm: Helm) -> None:
    """Over zones and hosts, but never in a way that a zone at risk could be needed for."""
    for kind, pod in pods(await helm.render()):
        if kind == "Deployment":
            spread = pod["spec"]["topologySpreadConstraints"]
            assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
            assert {each["whenUnsatisfiable"] for each in spread} == {"ScheduleAnyway"}
        assert "affinity" not in pod["spec"]
        assert "nodeSelector" not in pod["spec"]


@pytest.mark.parametrize("replicas", [2, 1])
async def test_wh_55_a_new_replica_serves_before_an_old_one_goes(replicas: int, helm: Helm) -> None:
    """And none keeps its node from being drained, were it the only one."""
    count = {} if replicas == 2 else {"replicas": replicas}
    objects = await helm.render({"webhook": count, "reconciler": count})
    for name in ("ebbtide-webhook", "ebbtide-reconciler"):
        spec = only(objects, "Deployment", name)["spec"]
        assert spec["replicas"] == replicas
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        budget = only(objects, "PodDisruptionBudget", name)["spec"]
        assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
        assert budget["selector"] == spec["selector"]


@pytest.mark.parametrize("drain", [None, 39, 0.5, "39s", "0.65m", "38s999.5ms", "0s"])
async def test_a_webhook_has_the_time_for_its_last_answers(drain: float | str | None, helm: Helm) -> None:
    """Whatever the drain may be, written in whatever way."""
    config = {} if drain is None else {"drain": drain}
    objects = await helm.render({"config": {"webhook": config}})
    spec = only(objects, "Deployment", "ebbtide-webhook")["spec"]["template"]["spec"]
    settings = Settings(webhook=Webhook() if drain is None else Webhook(drain=parse_duration(drain)))
    assert spec["terminationGracePeriodSeconds"] >= grace(settings)


@pytest.mark.parametrize(
    ("drain", "needed"), [(100, 106), ("1m30s", 96), ("1h", 3606), ("99.5s", 106), ("100001ms", 107)]
)
async def test_a_drain_that_a_pod_does_not_live_to_see_is_refused(drain: float | str, needed: int, helm: Helm) -> None:
    """By the second."""
    config = {"config": {"webhook": {"drain": drain}}}
    short, enough = ({"webhook": {"terminationGracePeriodSeconds": needed - less}} | config for less in (1, 0))
    assert f"Give it {needed} at least" in (await helm.template(short)).err
    assert (await helm.template(enough)).code == 0


async def test_load_data_is_answered_until_nobody_is_sent_to_an_old_replica(helm: Helm) -> None:
    """And there is time for an orderly end after that; who is asked for nothing ends at once."""
    objects = await helm.render({"config": {"worker-scaler": {"run": True}}})
    spec = only(objects, "Deployment", "ebbtide-reconciler")["spec"]["template"]["spec"]
    wait = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert wait > 0
    assert spec["terminationGracePeriodSeconds"] > wait + GRACE
    for _, pod in pods(await helm.render()):
        assert "lifecycle" not in pod["spec"]["containers"][0]


async def test_a_change_of_the_configuration_rolls_the_pods(helm: Helm) -> None:
    before, after = await helm.render(), await helm.render({"config": {"webhook": {"drain": "20s"}}})
    for (_, old), (_, new) in zip(pods(before), pods(after), strict=True):
        key = "checksum/config"
        if key in old["metadata"]["annotations"]:
            assert old["metadata"]["annotations"][key] != new["metadata"]["annotations"][key]


async def test_wh_53_who_is_registered_is_called_once_more_where_needed_and_stops_nobody(helm: Helm) -> None:
    """By default, in an entry of its own for each way in; who issues the certificate says whom to trust."""
    found = [each for each in await helm.render() if each["kind"] == "MutatingWebhookConfiguration"]
    assert [each["metadata"]["name"] for each in found] == [f"ebbtide-{name}" for name in WAYS_IN]
    service = {"namespace": NAMESPACE, "name": "ebbtide-webhook", "path": "/mutate", "port": 443}
    for each in found:
        assert "finalizers" not in each["metadata"]
        assert each["metadata"]["labels"]["ebbtide/ca-injection"] == "enabled"
        (entry,) = each["webhooks"]
        told = {key: entry[key] for key in ("sideEffects", "timeoutSeconds", "failurePolicy", "reinvocationPolicy")}
        assert told == {
            "sideEffects": "None",
            "timeoutSeconds": 3,
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "IfNeeded",
        }
        assert entry["clientConfig"] == {"service": service}


async def test_a_way_in_can_be_switched_off(helm: Helm) -> None:
    """What publishes the CA may go on doing so in one that comes back; who probes the first way in goes with it."""
    every, less = await helm.render(), await helm.render({"webhook": {"guardedPods": {"enabled": False}}})
    assert _names(every) - _names(less) == {("MutatingWebhookConfiguration", "ebbtide-guarded-pods")}
    assert only(every, "ClusterRole", "ebbtide-reconciler") == only(less, "ClusterRole", "ebbtide-reconciler")
    without = await helm.render({"webhook": {"pods": {"enabled": False}}})
    gone = _names(every) - _names(without)
    assert ("MutatingWebhookConfiguration", "ebbtide-pods") in gone
    assert {name for _, name in gone} == {"ebbtide-pods", "ebbtide-test"}
    assert not [each for each in without if "helm.sh/hook" in each["metadata"].get("annotations", {})]


WORKERS: Values = {"config": {"worker-scaler": {"run": True, "namespace": "tidb-workers"}}}
PROBED: dict[str, tuple[str, Values, str]] = {
    "by default": (NAMESPACE, {}, "default"),
    "where workers run": (NAMESPACE, WORKERS, "tidb-workers"),
    "where one is named": (NAMESPACE, {**WORKERS, "tests": {"namespace": "tools"}}, "tools"),
    "released into the default namespace": ("default", {}, "kube-public"),
    "default is left out": (NAMESPACE, {"webhook": {"excludedNamespaces": ["default"]}}, "kube-public"),
    "workers are left out": (NAMESPACE, {**WORKERS, "webhook": {"excludedNamespaces": ["tidb-workers"]}}, "default"),
}


@pytest.mark.parametrize(("release", "values", "namespace"), PROBED.values(), ids=PROBED.keys())
async def test_what_helm_tests_is_created_where_there_is_a_namespace_that_is_sent_to_the_webhook(
    release: str, values: Values, namespace: str, helm: Helm
) -> None:
    """That of the workers need not exist before there are any; the API server itself sees to `default`."""
    objects = await helm.render(values, namespace=release)
    (container,) = only(objects, "Pod")["spec"]["containers"]
    assert f"--namespace={namespace}" in container["args"]
    for kind in ("Role", "RoleBinding"):
        assert only(objects, kind, "ebbtide-test")["metadata"]["namespace"] == namespace


async def test_without_workers_nothing_is_installed_into_their_namespace(helm: Helm) -> None:
    """Which need not exist."""
    places = {each["metadata"].get("namespace") for each in await helm.render({**MODES["existing"], "config": {}})}
    assert places == {NAMESPACE, "default", None}


def _names(objects: list[Object]) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in objects}


async def test_each_way_in_has_a_failure_policy_of_its_own_and_leaves_namespaces_out(helm: Helm) -> None:
    webhook = {"guardedPods": {"failurePolicy": "Fail", "timeoutSeconds": 9}, "excludedNamespaces": ["tools"]}
    objects = await helm.render({"webhook": webhook}, namespace="elsewhere")
    policies = {}
    for each in objects:
        if each["kind"] == "MutatingWebhookConfiguration":
            (entry,) = each["webhooks"]
            policies[each["metadata"]["name"]] = (entry["failurePolicy"], entry["timeoutSeconds"])
            (excluded,) = entry["namespaceSelector"]["matchExpressions"]
            assert excluded["values"] == ["kube-system", "elsewhere", "tools"]
    assert policies == {
        "ebbtide-pods": ("Ignore", 3),
        "ebbtide-guarded-pods": ("Fail", 9),
        "ebbtide-stateful-sets": ("Ignore", 3),
    }


async def test_cert_manager_issues_for_the_names_that_are_called_and_injects_its_ca(helm: Helm) -> None:
    """CA and leaf are two Certificates; the webhook mounts the leaf's Secret, and every entry trusts its CA."""
    objects = await helm.render(MODES["cert-manager"])
    leaf, ca = (only(objects, "Certificate", name) for name in ("ebbtide-webhook", "ebbtide-webhook-ca"))
    assert ca["spec"]["isCA"]
    assert tuple(leaf["spec"]["dnsNames"]) == spec_of(Certs(), NAMESPACE).names
    issuer = only(objects, "Issuer", leaf["spec"]["issuerRef"]["name"])
    assert issuer["spec"]["ca"]["secretName"] == ca["spec"]["secretName"]
    pod = only(objects, "Deployment", "ebbtide-webhook")["spec"]["template"]["spec"]
    assert {"name": "tls", "secret": {"secretName": leaf["spec"]["secretName"]}} in pod["volumes"]
    for each in objects:
        if each["kind"] == "MutatingWebhookConfiguration":
            assert each["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/ebbtide-webhook"
            assert "ebbtide/ca-injection" not in each["metadata"]["labels"]


@pytest.mark.parametrize(
    ("host", "field"), [("hook.test", "dnsNames"), ("192.0.2.7", "ipAddresses"), ("[2001:db8::1]", "ipAddresses")]
)
async def test_cert_manager_issues_for_a_webhook_reached_by_url_as_well(host: str, field: str, helm: Helm) -> None:
    values = {"certificates": {"mode": "cert-manager"}, "webhook": {"url": f"https://{host}:8443/mutate"}}
    leaf = only(await helm.render(values), "Certificate", "ebbtide-webhook")
    assert leaf["spec"][field][-1] == host.strip("[]")
    assert len(leaf["spec"]["dnsNames"]) == len(spec_of(Certs(), NAMESPACE).names) + (field == "dnsNames")


async def test_names_of_releases_do_not_meet(helm: Helm) -> None:
    """Objects of the whole cluster carry the name of their release; long names stay within what Kubernetes takes."""
    name = "a-release-with-a-name-that-is-quite-a-long-one-to-read"[:53]
    said = await helm.run("template", name, str(CHART), "--kube-version=1.37.2", "--namespace=x", values=EVERYTHING)
    assert said.code == 0, said.err
    objects = [each for each in yaml.safe_load_all(said.out) if each]
    names = {each["metadata"]["name"] for each in objects}
    assert all(len(each) <= 63 for each in names)
    assert not names & {each["metadata"]["name"] for each in await helm.render(EVERYTHING)}
