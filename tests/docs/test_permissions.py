"""The page about running it names every permission that the reconciler may ask for, and no other."""

import re
from collections.abc import Iterable
from pathlib import Path

from ebbtide.config import Settings
from ebbtide.config.admission import Certs
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.permissions import Need
from reconciler.needs import needs
from reconciler.scaler.needs import needs_of_scaler

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "running.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ((?:[a-z]+(?:, )?)+) \| (`[^|]+) \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
OWN = "ebbtide-system"
WITH_EVERYTHING = Settings(
    node_rebalance=NodeRebalance(zonal_volume_policy="hold"),
    certs=Certs(mode="self-managed"),
    worker_scaler=WorkerScaler(run=True),
)


def resource(need: Need) -> str:
    path = "/".join(part for part in (need.resource.plural, need.subresource) if part)
    return f"{path}.{need.resource.group}" if need.resource.group else path


def place(namespace: str | None) -> str:
    """How the page calls the namespace, "" for the whole cluster."""
    return {OWN: " in the own namespace", WorkerScaler().namespace: " in the workers' namespace"}.get(
        namespace or "", ""
    )


def told(requirement: str = "") -> set[tuple[str, str, str]]:
    """Verb, resource, and where."""
    return {
        (verb, name, resources.rpartition("`")[2])
        for verbs, resources, needed in ROWS
        if needed == requirement or not requirement
        for verb in verbs.split(", ")
        for name in re.findall(r"`([a-z0-9./]+)`", resources)
    }


def named(asked_for: Iterable[Need]) -> set[tuple[str, str, str]]:
    return {(need.verb, resource(need), place(need.namespace)) for need in asked_for}


def asked(settings: Settings) -> list[Need]:
    return needs(settings, OWN, dry_run=False, deployment="ebbtide-reconciler")


def test_every_permission_is_listed_and_no_other() -> None:
    assert told() == named(asked(WITH_EVERYTHING))


def test_what_is_needed_is_told_from_what_is_not() -> None:
    essential = named(need for need in asked(Settings(certs=Certs(mode="files"))) if need.essential)
    assert told("yes") == essential
    assert told("no").isdisjoint(essential)


def test_what_workers_need_is_told_apart() -> None:
    namespaced = [need for need in needs_of_scaler(WorkerScaler(run=True), dry_run=False) if need.namespace]
    assert told("for workers") == named(need for need in namespaced if need.essential)


def test_a_dry_run_asks_for_nothing_that_writes() -> None:
    asked_dry = needs(WITH_EVERYTHING, OWN, dry_run=True)
    assert {need.verb for need in asked_dry} <= {"get", "list", "watch"}
