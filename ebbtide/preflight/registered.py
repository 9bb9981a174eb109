"""How the webhook is registered, what stands behind the registrations, and what becomes of a pod that is sent to it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.errors import ApiError, NotFound
from ebbtide.kube.resources import ENDPOINT_SLICES, MUTATING_WEBHOOKS, SECRETS, SERVICES
from ebbtide.preflight.unread import Unread, attempted

Raw = Mapping[str, Any]
Labels = Mapping[str, str]

# Creates a pod of a pool in that namespace by dry run; what the webhook had to do, and in words what of it is missing.
# Raises KubeError.
Probe = Callable[[str], Awaitable[tuple[str, Sequence[str]]]]

_CA: Final = "ca.crt"
# What the chart makes carries it. Where somebody else injects the CA, registrations have no label of ours for that.
_CHART: Final = "app.kubernetes.io/part-of=ebbtide"
_SERVICE_LABEL: Final = "kubernetes.io/service-name"
_USUAL_PORT: Final = 443
_DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class ServicePort:
    """Where the API server calls a webhook inside of the cluster."""

    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"Service {self.namespace}/{self.name}, port {self.port}"


@dataclass(frozen=True, slots=True)
class WebhookView:
    """An entry of a webhook configuration that carries our label.

    `ca_bundle` is base64, "" without. One of `url` and `service` is there. `for_pods` says whether the creation of pods
    is sent to it, from namespaces with labels that `namespaces` selects. `fails` says whether they are refused when it
    cannot be asked.
    """

    configuration: str
    name: str
    ca_bundle: str
    url: str = ""
    service: ServicePort | None = None
    for_pods: bool = True
    namespaces: Raw | None = None
    fails: bool = False

    @property
    def where(self) -> str:
        return f"{self.configuration}, entry {self.name}"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What is behind a port of a Service: the ports that the Service has, and how many endpoints serve this one."""

    ports: AbstractSet[int]
    ready: int
    unready: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a pod in that namespace: what had to be done to it, and what of that is `lacking`.

    `refused` is what the API server says when it could not ask the webhook, and therefore refuses the pod.
    """

    namespace: str
    reason: str
    lacking: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Registered:
    """All entries.

    `authority` is the bundle in the Secret of the certificates, in base64, "" where it has none; None without
    the Secret. `services` has None for a Service that does not exist.
    """

    entries: tuple[WebhookView, ...]
    authority: str | Unread | None
    services: Mapping[ServicePort, Endpoints | Unread | None]
    answer: Answer | Unread


async def read_registered(
    client: Client, settings: Settings, namespaces: Awaitable[Mapping[str, Labels] | Unread], probe: Probe
) -> Registered:
    """Looks behind the registrations, where there are any. Raises KubeError when those cannot be read themselves."""
    entries = await _entries(client, settings.certs.webhook_configuration_selector) or await _entries(client, _CHART)
    if not entries:
        return Registered((), None, {}, Unread("no webhook is registered"))
    services = list(dict.fromkeys(entry.service for entry in entries if entry.service is not None))
    named = await namespaces
    async with asyncio.TaskGroup() as group:
        authority = group.create_task(attempted(_authority(client, settings)))
        answer = group.create_task(attempted(_answer(entries, settings, named, probe)))
        behind = {each: group.create_task(attempted(_endpoints(client, each))) for each in services}
    return Registered(
        entries, authority.result(), {each: task.result() for each, task in behind.items()}, answer.result()
    )


async def _entries(client: Client, selector: str) -> tuple[WebhookView, ...]:
    configurations, _ = await client.list_all(MUTATING_WEBHOOKS, label_selector=selector)
    return tuple(_entry(raw, entry) for raw in configurations for entry in raw.get("webhooks") or ())


def _entry(configuration: Raw, entry: Raw) -> WebhookView:
    call = entry.get("clientConfig") or {}
    service = call.get("service")
    return WebhookView(
        configuration=f"{MUTATING_WEBHOOKS.kind} {configuration['metadata']['name']}",
        name=str(entry.get("name") or ""),
        ca_bundle=str(call.get("caBundle") or ""),
        url=str(call.get("url") or ""),
        service=ServicePort(service["namespace"], service["name"], service.get("port") or _USUAL_PORT)
        if service
        else None,
        for_pods=any(map(_of_new_pods, entry.get("rules") or ())),
        namespaces=entry.get("namespaceSelector"),
        fails=entry.get("failurePolicy") == "Fail",
    )


def _of_new_pods(rule: Raw) -> bool:
    wanted = (("apiGroups", ""), ("resources", "pods"), ("operations", "CREATE"))
    return all({"*", word} & {*(rule.get(field) or ())} for field, word in wanted)


async def _authority(client: Client, settings: Settings) -> str | Unread | None:
    """Of the Secret nothing else is kept: its keys are nobody's business."""
    if settings.certs.mode == "files":
        return Unread("the certificate comes from files (certs.mode): who issues it, and where from, is not told")
    try:
        secret = await client.get(SECRETS, settings.certs.secret_name, namespace=settings.home)
    except NotFound:
        return None
    return str((secret.get("data") or {}).get(_CA) or "")


async def _endpoints(client: Client, port: ServicePort) -> Endpoints | None:
    try:
        service = await client.get(SERVICES, port.name, namespace=port.namespace)
    except NotFound:
        return None
    names = {each["port"]: each.get("name") or "" for each in service["spec"].get("ports") or ()}
    slices, _ = await client.list_all(
        ENDPOINT_SLICES, namespace=port.namespace, label_selector=f"{_SERVICE_LABEL}={port.name}"
    )
    serving = [
        each for each in slices if names.get(port.port) in {p.get("name") or "" for p in each.get("ports") or ()}
    ]
    # A pod has an endpoint in each family of addresses. Without a word about readiness it is ready.
    ready = {
        str((endpoint.get("targetRef") or {}).get("uid") or endpoint["addresses"][0]): (
            (endpoint.get("conditions") or {}).get("ready") is not False
        )
        for each in serving
        for endpoint in each.get("endpoints") or ()
    }
    return Endpoints(frozenset(names), sum(ready.values()), len(ready) - sum(ready.values()))


async def _answer(
    entries: Sequence[WebhookView], settings: Settings, namespaces: Mapping[str, Labels] | Unread, probe: Probe
) -> Answer | Unread:
    if isinstance(namespaces, Unread):
        return namespaces
    candidates = (settings.worker_scaler.namespace, _DEFAULT, *sorted(namespaces))
    namespace = chosen(entries, [name for name in candidates if name in namespaces], namespaces)
    if not namespace:
        return Unread("there is no namespace from which pods are sent to the webhook")
    try:
        reason, lacking = await probe(namespace)
    except ApiError as error:
        # `failed calling webhook "pods.ebbtide.dev": …`; whatever else refuses the pod says nothing about the webhook.
        if any(f'"{entry.name}"' in error.message for entry in entries):
            return Answer(namespace, "", refused=error.message)
        raise
    return Answer(namespace, reason, tuple(lacking))


def chosen(entries: Iterable[WebhookView], candidates: Iterable[str], labels: Mapping[str, Labels]) -> str:
    """The first of the namespaces from which pods are sent to one of the entries, "" without any."""
    selectors = [entry.namespaces or {} for entry in entries if entry.for_pods]
    return next((name for name in candidates if any(_selects(each, labels[name]) for each in selectors)), "")


def _selects(selector: Raw, labels: Labels) -> bool:
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def _meets(expression: Raw, labels: Labels) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
