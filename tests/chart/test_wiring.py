"""What the chart wires meets: labels and selectors, names and numbers of ports, and what the programs serve there."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from ebbtide.agent import server as of_the_agent
from ebbtide.config import Settings, load
from ebbtide.service import server as of_the_others
from ebbtide.service.listening import bind
from ebbtide.service.probes import Health
from reconciler.scaler.front import query
from tests.chart.helm import NAMESPACE, Object, Values, only, rendered
from tests.chart.test_notes import notes
from webhook import app

EVERYTHING: Final[Values] = {
    "agent": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "config": {"worker-scaler": {"run": True}},
}
SHAPES: Final[Mapping[str, Values]] = {
    "everything": EVERYTHING,
    "as little as there can be": {"serviceMonitor": {"enabled": True}, "networkPolicy": {"enabled": True}},
    "a dry run": {**EVERYTHING, "reconciler": {"dryRun": True}},
    "the agent on another port": {**EVERYTHING, "agent": {"enabled": True, "port": 9105, "hostNetwork": True}},
    "with labels and names of one's own": {
        **EVERYTHING,
        "fullnameOverride": "spot",
        "commonLabels": {"team": "storage", "app.kubernetes.io/part-of-platform": "data"},
    },
    "limited to some": {
        **EVERYTHING,
        "networkPolicy": {
            "enabled": True,
            "metricsFrom": [{"namespaceSelector": {}}],
            "loadDataFrom": [{"podSelector": {"matchLabels": {"app": "tidb"}}}],
        },
    },
    "with an existing certificate": {
        **EVERYTHING,
        "certificates": {"mode": "existing", "existingSecret": "mine"},
        "webhook": {"workers": 4},
    },
}
COMPONENT: Final = "app.kubernetes.io/component"
# Its pod has the labels of the release, but no port: a Service has no address of it.
TEST: Final = "test"


@pytest.fixture(params=SHAPES)
def values(request: pytest.FixtureRequest) -> Values:
    return SHAPES[request.param]


@pytest.fixture
async def objects(values: Values, tmp_path: Path) -> list[Object]:
    return await rendered(tmp_path, values)


def pods(objects: list[Object]) -> dict[str, Object]:
    """What pods there will be, by their component."""
    templates = [each["spec"]["template"] for each in objects if each["kind"] in ("Deployment", "DaemonSet")]
    found = [*templates, *(each for each in objects if each["kind"] == "Pod")]
    by_component = {each["metadata"]["labels"][COMPONENT]: each for each in found}
    assert len(by_component) == len(found)
    return by_component


def selected(objects: list[Object], labels: Mapping[str, str]) -> set[str]:
    """The components whose pods have these labels."""
    return {name for name, pod in pods(objects).items() if labels.items() <= pod["metadata"]["labels"].items()}


def ports(pod: Object) -> dict[str, int]:
    """The ports of its container, by their names."""
    (container,) = pod["spec"]["containers"]
    return {each["name"]: each["containerPort"] for each in container.get("ports", ())}


def listening(component: str, objects: list[Object], folder: Path) -> dict[str, int]:
    """Where a program listens, by the configuration and the environment that its container has."""
    (container,) = pods(objects)[component]["spec"]["containers"]
    (config,) = (each for each in objects if each["kind"] == "ConfigMap" and "ebbtide.toml" in each["data"])
    file = folder / f"{component}.toml"
    file.write_text(config["data"]["ebbtide.toml"], encoding="utf-8")
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    return _listens(component, load(file, given).settings, dry_run="--dry-run" in container["args"])


def _listens(component: str, settings: Settings, *, dry_run: bool) -> dict[str, int]:
    if component == "webhook":
        return {"admission": settings.webhook.listen.port, "metrics": settings.webhook.health_listen.port}
    found = {"metrics": settings.observability.listen.port}
    if component == "reconciler" and settings.worker_scaler.run and not dry_run:
        found["load-data"] = settings.worker_scaler.listen.port
    return found


def test_a_container_names_the_ports_on_which_its_program_listens(objects: list[Object], tmp_path: Path) -> None:
    for component, pod in pods(objects).items():
        expected = {} if component == TEST else listening(component, objects, tmp_path)
        assert ports(pod) == expected, component


def test_whoever_makes_pods_finds_them_again_and_no_others(objects: list[Object]) -> None:
    for each in objects:
        if each["kind"] in ("Deployment", "DaemonSet"):
            component = each["spec"]["template"]["metadata"]["labels"][COMPONENT]
            assert selected(objects, each["spec"]["selector"]["matchLabels"]) == {component}
            for spread in each["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
                assert selected(objects, spread["labelSelector"]["matchLabels"]) == {component}


def test_a_service_leads_to_the_pods_that_serve_what_it_is_for_and_to_no_others(
    objects: list[Object], values: Values, tmp_path: Path
) -> None:
    """By the name of a port that each of them has."""
    found = {each["metadata"]["labels"][COMPONENT]: each["spec"] for each in objects if each["kind"] == "Service"}
    serving = {name: listening(name, objects, tmp_path) for name in pods(objects) if name != TEST}
    front = any("load-data" in each for each in serving.values())
    assert set(found) == {"webhook", "metrics", *(["reconciler"] if front else [])}
    for service in found.values():
        (port,) = service["ports"]
        target = port["targetPort"]
        assert selected(objects, service["selector"]) - {TEST} == {
            name for name, served in serving.items() if target in served
        }
    assert {each["ports"][0]["targetPort"] for each in found.values()} == {
        target for each in serving.values() for target in each
    }


def test_the_api_server_calls_a_port_of_a_service_and_a_path_that_is_served(objects: list[Object]) -> None:
    called = [each for each in objects if each["kind"] == "MutatingWebhookConfiguration"]
    assert called
    for each in called:
        (entry,) = each["webhooks"]
        reference = entry["clientConfig"]["service"]
        assert (reference["namespace"], reference["path"]) == (NAMESPACE, app.PATH)
        service = only(objects, "Service", reference["name"])["spec"]
        assert [port["targetPort"] for port in service["ports"] if port["port"] == reference["port"]] == ["admission"]


async def test_the_address_for_load_data_in_the_notes_is_that_of_a_service(
    objects: list[Object], values: Values, tmp_path: Path
) -> None:
    """And nobody is sent to an address where nobody answers."""
    found = re.findall(r"http://(\S+)\.ebbtide-system:(\d+)(/\w+)", await notes(tmp_path, values))
    expected = [
        (each["metadata"]["name"], str(port["port"]), query.PATH)
        for each in objects
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
        if port["targetPort"] == "load-data"
    ]
    assert found == expected


def test_prometheus_finds_the_metrics_of_all_components(objects: list[Object]) -> None:
    """By labels that one Service of the release has, and by the name of a port of it."""
    monitor = only(objects, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [each for each in objects if each["kind"] == "Service"]
    (service,) = [each for each in services if wanted <= each["metadata"]["labels"].items()]
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert [port["targetPort"] for port in service["spec"]["ports"] if port["name"] == endpoint["port"]] == ["metrics"]
    assert service["spec"]["publishNotReadyAddresses"]
    assert selected(objects, service["spec"]["selector"]) - {TEST} == {
        name for name, pod in pods(objects).items() if "metrics" in ports(pod)
    }


def test_network_policies_let_in_what_is_served_and_nothing_else(objects: list[Object], tmp_path: Path) -> None:
    """One for each component, and for its own replicas only what they ask each other for."""
    policies = {
        each["metadata"]["labels"][COMPONENT]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"
    }
    assert policies.keys() == pods(objects).keys() - {TEST}
    for component, policy in policies.items():
        assert selected(objects, policy["podSelector"]["matchLabels"]) == {component}
        assert policy["policyTypes"] == ["Ingress"]
        served = listening(component, objects, tmp_path)
        for rules in (policy["ingress"], [each for each in policy["ingress"] if not _from_itself(each, objects)]):
            assert {port["port"] for rule in rules for port in rule["ports"]} == {*served.values()}
        for rule in policy["ingress"]:
            if peers := _from_itself(rule, objects):
                assert peers == {component}


def _from_itself(rule: Object, objects: list[Object]) -> set[str]:
    """The components of the release that a rule lets in by the labels of their pods."""
    selectors = [each["podSelector"]["matchLabels"] for each in rule.get("from", ()) if "podSelector" in each]
    return {name for labels in selectors for name in selected(objects, labels)}


async def test_who_is_named_by_the_values_is_let_in_to_that_port_and_nobody_else_is(tmp_path: Path) -> None:
    values = SHAPES["limited to some"]
    objects = await rendered(tmp_path, values)
    limits = {"metrics": values["networkPolicy"]["metricsFrom"], "load-data": values["networkPolicy"]["loadDataFrom"]}
    for component in ("webhook", "reconciler", "agent"):
        policy = only(objects, "NetworkPolicy", f"ebbtide-{component}")["spec"]
        numbers = ports(pods(objects)[component])
        for name, peers in limits.items():
            rules = [each for each in policy["ingress"] if {"port": numbers.get(name)} in each["ports"]]
            assert [each["from"] for each in rules if not _from_itself(each, objects)] == [peers] * (name in numbers)


@asynccontextmanager
async def _serving() -> AsyncIterator[Mapping[str, str]]:
    """Where each component has its metrics and probes, as its program serves them: two ways."""
    async with AsyncExitStack() as stack:
        agent, others = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
        registry, health = CollectorRegistry(), Health()
        await stack.enter_async_context(of_the_agent.serving(agent, registry, health))
        await stack.enter_async_context(of_the_others.serving(of_the_others.application(registry, health), others))
        urls = ["http://{}:{}".format(*each.getsockname()[:2]) for each in (agent, others)]
        yield {"agent": urls[0], "webhook": urls[1], "reconciler": urls[1]}


async def test_probes_and_prometheus_ask_for_what_is_answered_there(objects: list[Object]) -> None:
    """Whether it lives is another question than whether it is ready."""
    (endpoint,) = only(objects, "ServiceMonitor")["spec"]["endpoints"]
    async with _serving() as urls, aiohttp.ClientSession() as session:
        for component, pod in pods(objects).items():
            (container,) = pod["spec"]["containers"]
            asked: list[Any] = [
                container[each]["httpGet"] for each in ("livenessProbe", "readinessProbe") if each in container
            ]
            assert [each["path"] for each in asked] == ([] if component == TEST else ["/healthz", "/readyz"])
            assert {each["port"] for each in asked} == ({"metrics"} if asked else set())
            for path in [*(each["path"] for each in asked), endpoint["path"]] if asked else ():
                async with session.get(urls[component] + path) as answer:
                    assert answer.status == 200, (component, path)
