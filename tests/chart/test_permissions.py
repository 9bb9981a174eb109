"""Each component may do what it asks for, and nothing else."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from ebbtide.config import Settings, load
from ebbtide.kube.permissions import Need
from reconciler.needs import needs as needs_of_reconciler
from tests.chart.helm import CHART, NAMESPACE, Helm, Object, Values, only
from tests.chart.permissions import Asked, Grant, asked, granted, unused
from webhook.needs import needs as needs_of_webhook

CONFIGURATIONS: dict[str, Values] = {
    "defaults": {},
    "dry run": {"reconciler": {"dryRun": True}},
    "certificates of cert-manager": {"certificates": {"mode": "cert-manager"}},
    "an existing certificate": {"certificates": {"mode": "existing", "existingSecret": "mine"}},
    "dry run without certificates": {
        "reconciler": {"dryRun": True},
        "certificates": {"mode": "existing", "existingSecret": "mine"},
    },
    "without zone rebalance": {"config": {"node-rebalance": {"run": False}}},
    "pods with volumes are held": {"config": {"node-rebalance": {"zonal-volume-policy": "hold"}}},
    "volumes are of no interest": {"config": {"webhook": {"volume-zone-awareness": False}}},
    "volumes are of interest to evictions only": {
        "config": {"webhook": {"volume-zone-awareness": False}, "node-rebalance": {"zonal-volume-policy": "hold"}},
    },
    "signals from a queue": {
        "config": {"signals": {"sqs": {"queue-url": "https://sqs.test/1/q", "region": "eu-central-1"}}}
    },
    "a queue without zone rebalance": {
        "config": {
            "node-rebalance": {"run": False},
            "signals": {"sqs": {"queue-url": "https://sqs.test/1/q", "region": "eu-central-1"}},
        },
    },
    "workers": {"config": {"worker-scaler": {"run": True}}},
    "workers and a shared pool": {"config": {"worker-scaler": {"run": True, "shared-pool-enabled": True}}},
    "workers without zone rebalance": {
        "config": {"worker-scaler": {"run": True}, "node-rebalance": {"run": False}},
    },
    "workers in a dry run": {"config": {"worker-scaler": {"run": True}}, "reconciler": {"dryRun": True}},
}


@pytest.fixture(params=CONFIGURATIONS)
def values(request: pytest.FixtureRequest) -> Values:
    return CONFIGURATIONS[request.param]


@pytest.fixture
async def objects(values: Values, tmp_path: Path) -> list[Object]:
    return await Helm("helm4", tmp_path).render(values)


@pytest.fixture
def settings(objects: list[Object], tmp_path: Path) -> Settings:
    """What the programs read."""
    file = tmp_path / "ebbtide.toml"
    file.write_text(only(objects, "ConfigMap", "ebbtide-config")["data"]["ebbtide.toml"])
    assert tomllib.loads(file.read_text())["namespace"] == NAMESPACE
    return load(file, {}).settings


def test_the_reconciler_may_do_what_it_asks_for_and_nothing_else(
    values: Values, objects: list[Object], settings: Settings
) -> None:
    dry_run = bool(values.get("reconciler", {}).get("dryRun"))
    wanted = needs_of_reconciler(settings, NAMESPACE, dry_run=dry_run, deployment="ebbtide-reconciler")
    _fit(granted(objects, "ebbtide-reconciler"), wanted)


def test_the_webhook_may_do_what_it_asks_for_and_nothing_else(objects: list[Object], settings: Settings) -> None:
    """Its own pod is any pod of the namespace: a role cannot say which one that is."""
    container = only(objects, "Deployment", "ebbtide-webhook")["spec"]["template"]["spec"]["containers"][0]
    pod = "its-own" if any(each["name"] == "POD_NAME" for each in container["env"]) else ""
    _fit(granted(objects, "ebbtide-webhook"), needs_of_webhook(settings, NAMESPACE, pod))


def _fit(grants: list[Grant], wanted: list[Need]) -> None:
    lacking = [str(need) for need in wanted if not any(grant.covers(need) for grant in grants)]
    assert not lacking
    unused = [grant for grant in grants if not any(grant.covers(need) for need in wanted)]
    assert not unused
    assert len(grants) == len(set(grants)), "the same is granted twice"


async def test_the_agent_is_held_to_what_the_page_about_signals_says(tmp_path: Path) -> None:
    """Its role and its policy are those of the page, which other tests try."""
    objects = await Helm("helm4", tmp_path).render({"agent": {"enabled": True}})
    text = (CHART.parents[1] / "docs" / "signals.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    page = [each for block in blocks for each in yaml.safe_load_all(block) if each]
    for kind, field in (
        ("ClusterRole", "rules"),
        ("ValidatingAdmissionPolicy", "spec"),
        ("ValidatingAdmissionPolicyBinding", "spec"),
    ):
        assert only(objects, kind, "ebbtide-agent")[field] == only(page, kind, "ebbtide-agent")[field]


async def test_no_role_reaches_secrets_of_other_namespaces_or_grants_everything(tmp_path: Path) -> None:
    """Secrets are read by their names, in the release's namespace; no wildcard anywhere."""
    everything = {"agent": {"enabled": True}, "config": {"worker-scaler": {"run": True}}}
    objects = await Helm("helm4", tmp_path).render(everything)
    for role in (each for each in objects if each["kind"] in ("Role", "ClusterRole")):
        for rule in role["rules"]:
            assert not {"*"} & {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            if "secrets" in rule["resources"]:
                assert role["kind"] == "Role"
                assert role["metadata"]["namespace"] == NAMESPACE
                assert rule.get("resourceNames") or rule["verbs"] == ["create"]


async def test_a_token_is_mounted_by_the_pods_that_use_it_and_by_no_other(tmp_path: Path) -> None:
    objects = await Helm("helm4", tmp_path).render({"agent": {"enabled": True}})
    accounts = [each for each in objects if each["kind"] == "ServiceAccount"]
    assert [each["automountServiceAccountToken"] for each in accounts] == [False] * len(accounts)
    for name in ("webhook", "reconciler", "agent"):
        kind = "DaemonSet" if name == "agent" else "Deployment"
        pod = only(objects, kind, f"ebbtide-{name}")["spec"]["template"]["spec"]
        assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (f"ebbtide-{name}", True)


@pytest.mark.parametrize(
    ("request_line", "status", "expected"),
    [
        ("GET /api/v1/nodes?limit=500", 200, [("list", "", "nodes", "", "")]),
        ("GET /api/v1/nodes?watch=true", 200, [("watch", "", "nodes", "", "")]),
        ("GET /api/v1/nodes/a", 200, [("get", "", "nodes", "", "a")]),
        ("PATCH /api/v1/nodes/a/status", 200, [("patch", "", "nodes/status", "", "a")]),
        ("GET /api/v1/namespaces", 200, [("list", "", "namespaces", "", "")]),
        ("GET /api/v1/namespaces/n", 200, [("get", "", "namespaces", "n", "n")]),
        ("POST /api/v1/namespaces/n/pods/p/eviction", 201, [("create", "", "pods/eviction", "n", "p")]),
        ("DELETE /apis/apps/v1/namespaces/n/statefulsets/s", 200, [("delete", "apps", "statefulsets", "n", "s")]),
        (
            "DELETE /apis/apps/v1/namespaces/n/statefulsets",
            200,
            [("deletecollection", "apps", "statefulsets", "n", "")],
        ),
        ("PUT /api/v1/namespaces/n/secrets/s", 200, [("update", "", "secrets", "n", "s")]),
        (
            "GET /api/v1/namespaces/n/secrets?watch=1&fieldSelector=metadata.name%3Ds",
            200,
            [("watch", "", "secrets", "n", "s")],
        ),
        (
            "PATCH /apis/policy/v1/namespaces/n/poddisruptionbudgets/b?fieldManager=m",
            201,
            [
                ("patch", "policy", "poddisruptionbudgets", "n", "b"),
                ("create", "policy", "poddisruptionbudgets", "n", "b"),
            ],
        ),
        ("GET /version", 200, []),
        ("GET /apis/apps/v1", 200, []),
    ],
)
def test_a_request_is_known_by_what_the_server_asks_rbac(
    request_line: str, status: int, expected: list[tuple[str, ...]]
) -> None:
    method, path = request_line.split()
    assert asked(method, path, status) == [Asked(*each) for each in expected]


def test_a_request_needs_the_narrowest_grant() -> None:
    """What a role in one namespace permits is no use of a role in all of them."""
    everywhere = Grant("delete", "", "pods", "", frozenset())
    there = Grant("delete", "", "pods", "n", frozenset())
    named = Grant("delete", "", "pods", "n", frozenset({"p"}))
    grants = [everywhere, there, named]
    assert unused(grants, [Asked("delete", "", "pods", "n", "p")]) == [there, everywhere]
    assert unused(grants, [Asked("delete", "", "pods", "n", "q")]) == [named, everywhere]
    assert unused(grants, [Asked("delete", "", "pods", "m", "p")]) == [named, there]
    assert unused(grants, [Asked("delete", "apps", "pods", "n", "p"), Asked("get", "", "pods", "n", "p")]) == [
        named,
        there,
        everywhere,
    ]
