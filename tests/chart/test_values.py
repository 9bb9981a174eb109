"""Values: what is misspelt or impossible fails when the chart is rendered, what is given arrives in the programs."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from docs import chart
from ebbtide.config import Settings, load
from ebbtide.config.kinds import Kind
from ebbtide.config.schema import Leaf, kind_of, leaves
from tests.chart.helm import CHART, NAMESPACE, Helm, Object, Values, only

REFUSED: dict[str, tuple[Values, str]] = {
    "WH-56 misspelt at the top": ({"webook": {"replicas": 3}}, "webook"),
    "misspelt below": ({"webhook": {"replica": 2}}, "replica"),
    "a key that the configuration does not have": ({"config": {"node-rebalance": {"holddown": "1m"}}}, "holddown"),
    "a table that the configuration does not have": ({"config": {"rebalance": {}}}, "rebalance"),
    "a key of the configuration that the chart wires": ({"config": {"webhook": {"listen": "0.0.0.0:1"}}}, "listen"),
    "of another type": ({"webhook": {"replicas": "two"}}, "replicas"),
    "out of bounds": ({"webhook": {"pods": {"timeoutSeconds": 31}}}, "timeoutSeconds"),
    "a word that there is not": ({"certificates": {"mode": "letsencrypt"}}, "mode"),
    "a policy that there is not": ({"webhook": {"pods": {"failurePolicy": "Retry"}}}, "failurePolicy"),
    "a URL without TLS": ({"webhook": {"url": "http://127.0.0.1:8443/mutate"}}, "url"),
    "a URL whose host no certificate has": ({"webhook": {"url": "https://a_b:8443/mutate"}}, "url"),
    "a key of a row": ({"config": {"worker-scaler": {"sts-configs": [{"min-data-size-gb": 1, "cpu": 1}]}}}, "cpu"),
    "a row without its size": ({"config": {"worker-scaler": {"sts-configs": [{"worker-num": 1}]}}}, "min-data-size-gb"),
    "an existing Secret without a name": ({"certificates": {"mode": "existing"}}, "certificates.existingSecret"),
    "workers in the release's namespace": ({"config": {"worker-scaler": {"namespace": NAMESPACE}}}, NAMESPACE),
    "a probe in the release's namespace": ({"tests": {"namespace": NAMESPACE}}, "tests.namespace"),
    "a probe where the webhook is not asked": (
        {"tests": {"namespace": "tools"}, "webhook": {"excludedNamespaces": ["tools"]}},
        "tests.namespace is tools",
    ),
    "a probe nowhere": ({"webhook": {"excludedNamespaces": ["default", "kube-public"]}}, "tests.namespace has to name"),
    "a drain that is longer than a pod's end": ({"config": {"webhook": {"drain": "39001ms"}}}, "config.webhook.drain"),
    "a pod's end that is shorter than the drain": ({"webhook": {"terminationGracePeriodSeconds": 20}}, "21 at least"),
    "the agent listening where it cannot": ({"agent": {"port": 70000}}, "port"),
    "a duration of no unit that there is": ({"config": {"node-rebalance": {"hold-down": "5q"}}}, "hold-down"),
    "a duration without a unit": ({"config": {"node-rebalance": {"hold-down": "5"}}}, "hold-down"),
    "an empty duration": ({"config": {"node-rebalance": {"hold-down": ""}}}, "hold-down"),
    "a negative duration": ({"config": {"node-rebalance": {"hold-down": -1}}}, "hold-down"),
    "a duration of more than a hundred years": ({"config": {"certs": {"overlap": 3153600001}}}, "overlap"),
    "a text that is more than a hundred years": ({"config": {"certs": {"overlap": "876001h"}}}, "overlap"),
    "parts of a second in a lease, as text": (
        {"config": {"leader-election": {"lease-duration": "1500ms"}}},
        "lease-duration",
    ),
    "a size of more than a worker can say": ({"config": {"worker-scaler": {"max-size": "8192PB"}}}, "max-size"),
    "less than a byte": ({"config": {"webhook": {"max-body-size": "0.5B"}}}, "max-body-size"),
    "a number that YAML does not keep": (
        {"config": {"worker-scaler": {"worker-count-limit": (1 << 53) + 2}}},
        "worker-count-limit",
    ),
    "an object's name that is too long": (
        {"config": {"worker-scaler": {"template-sts-name": "a" * 63 + f".{'b' * 63}" * 3}}},
        "template-sts-name",
    ),
    "a label whose prefix is too long": (
        {"config": {"node-rebalance": {"zone-label": "a" * 63 + f".{'b' * 63}" * 3 + "/c"}}},
        "zone-label",
    ),
    "a URL with a port that there is not": (
        {"config": {"signals": {"imds": {"endpoint": "http://a:65536"}}}},
        "endpoint",
    ),
    "a URL whose host is a mistyped address": (
        {"config": {"signals": {"imds": {"endpoint": "http://1.2.3"}}}},
        "endpoint",
    ),
    "a name that no certificate has": ({"config": {"certs": {"extra-sans": ["a_b"]}}}, "extra-sans"),
    "no duration where some is needed": ({"config": {"node-rebalance": {"resync-period": "0s"}}}, "resync-period"),
    "a duration that is a word": ({"config": {"webhook": {"drain": "hello"}}}, "drain"),
    "a fraction of a second in a lease": ({"config": {"leader-election": {"lease-duration": 1.5}}}, "lease-duration"),
    "a size of no unit that there is": ({"config": {"worker-scaler": {"max-size": "2XB"}}}, "max-size"),
    "a negative size": ({"config": {"worker-scaler": {"max-size": -1}}}, "max-size"),
    "no size where some is needed": ({"config": {"webhook": {"max-body-size": "0KB"}}}, "max-body-size"),
    "a label that cannot be": ({"config": {"node-rebalance": {"node-group-label": "a b"}}}, "node-group-label"),
    "no label where one is needed": ({"config": {"node-rebalance": {"zone-label": ""}}}, "zone-label"),
    "no node groups": ({"config": {"node-rebalance": {"node-groups": []}}}, "node-groups"),
    "a number that is negative": ({"config": {"node-rebalance": {"min-open-zones": -1}}}, "min-open-zones"),
    "a boolean that is a word": ({"config": {"node-rebalance": {"run": "yes"}}}, "run"),
    "a word that is none of them": (
        {"config": {"node-rebalance": {"zonal-volume-policy": "x"}}},
        "zonal-volume-policy",
    ),
    "a port that there is not": ({"config": {"worker-scaler": {"worker-port": 65536}}}, "worker-port"),
    "a namespace that cannot be": ({"config": {"worker-scaler": {"namespace": "A_b"}}}, "namespace"),
    "a Service that cannot be": ({"config": {"worker-scaler": {"name": "1worker"}}}, "name"),
    "an object that cannot be": ({"config": {"worker-scaler": {"template-sts-name": "a/b"}}}, "template-sts-name"),
    "a label's value that cannot be": (
        {"config": {"worker-scaler": {"shared-sts-config": {"node-group": "-a"}}}},
        "node-group",
    ),
    "a URL of another protocol": ({"config": {"signals": {"sqs": {"queue-url": "ftp://a"}}}}, "queue-url"),
    "a region that cannot be": ({"config": {"signals": {"sqs": {"region": "Frankfurt"}}}}, "region"),
}
# Of every kind that has a pattern some, as the programs take them.
TEXTS = (
    *("", "a", "a-b", "a.b", "A_b", "1", "0", "a/b", "a.b/C_d.e", "-a", "a b", "é", "a\n", "5q", "hello", "x" * 64),
    *(
        "0s",
        "500ms",
        "90s",
        "1.5s",
        "5m",
        "1h30m",
        "1h2m3s4ms",
        "30m1h",
        "1h 30m",
        "0B",
        "64KB",
        "2GB",
        "1.5 GiB",
        "2XB",
    ),
    *(
        "http://a",
        "https://a.b:1/c/d",
        "http://[::1]:80",
        "HTTP://a",
        "ftp://a",
        "http://a b",
        "http://u@a",
        "http://a?b",
    ),
    *("eu-central-1", "us-gov-west-1", "Frankfurt", "cluster.local", ".local", "serverless.tidbcloud.com/node"),
)
ODD: dict[str, Any] = {
    "node-rebalance": {"node-groups": ['a"b', "c\\d", "<&>*", "é"], "hold-down": "90s", "min-open-zones": 2},
    "worker-scaler": {
        "run": True,
        "max-size": 1 << 40,
        "spawn-data-size": "2GB",
        "cluster-id": "18446744073709551615",
        "worker-max-cores": 3.5,
        "shared-hard-cap": True,
        "shared-sts-config": {"request-cpu": 2, "limit-cpu": 2.5, "node-group": "shared"},
        "sts-configs": [{"min-data-size-gb": 7, "request-cpu": 1.5, "limit-cpu": 2, "worker-num": 3}],
    },
    "webhook": {"drain": 20, "volume-zone-awareness": False},
    "certs": {"extra-sans": ["hook.example.com"], "leaf-lifetime": "720h"},
    "signals": {"imds": {"poll-interval": "5s"}, "sqs": {"queue-url": "https://sqs.test/1/q", "region": "eu-west-1"}},
    "leader-election": {"lease-duration": 30, "renew-deadline": "20s"},
}


@pytest.fixture(params=["helm4", "helm3"])
def helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    return Helm(request.param, tmp_path)


@pytest.mark.parametrize(("values", "named"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_cannot_be_is_an_error_that_names_it(values: Values, named: str, helm: Helm) -> None:
    said = await helm.template(values)
    assert said.code != 0
    assert named in said.err


@pytest.mark.parametrize("leaf", [leaf for leaf in leaves().values() if kind_of(leaf.field)], ids=lambda leaf: leaf.key)
def test_a_pattern_takes_what_the_programs_take_and_nothing_else(leaf: Leaf) -> None:
    """Kinds of lists, and those that only the programs can tell, have none."""
    kind = kind_of(leaf.field)
    assert kind is not None
    texts = TEXTS if kind.most is None else filter(None, TEXTS)
    for text in texts if kind.pattern else ():
        assert bool(re.fullmatch(kind.pattern, text)) == _parses(kind, text), text


def _parses(kind: Kind, text: str) -> bool:
    try:
        kind.parse(text)
    except ValueError:
        return False
    return True


async def test_the_configuration_arrives_as_it_was_given(helm: Helm, tmp_path: Path) -> None:
    """Numbers stay numbers, and texts come through whatever is in them."""
    expected = copy.deepcopy(ODD)
    expected["worker-scaler"]["cluster-id"] = (1 << 64) - 1
    settings = _read(await helm.render({"config": ODD}), tmp_path)
    given = {f"{table}.{key}": value for table, keys in expected.items() for key, value in _flat(keys)}
    found = {key: leaf.plain(leaf.value(settings)) for key, leaf in leaves().items() if key in given}
    sizes = {"worker-scaler.max-size": "1TB", "webhook.drain": "20s", "leader-election.lease-duration": "30s"}
    sizes |= {"node-rebalance.hold-down": "90s"}
    assert _lists(found) == _lists(given | sizes)


def _flat(keys: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in keys.items():
        found += (
            [(f"{key}.{name}", each) for name, each in value.items()] if isinstance(value, dict) else [(key, value)]
        )
    return found


def _lists(values: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


async def test_without_values_the_programs_have_their_own_defaults(helm: Helm, tmp_path: Path) -> None:
    """Apart from what the chart wires."""
    settings = _read(await helm.render(), tmp_path)
    wired = {
        "namespace",
        "leader-election.lease-name",
        *(f"{table}.{key}" for table, keys in chart.WIRED.items() for key in keys),
    }
    defaults = Settings()
    for key, leaf in leaves().items():
        if key not in wired:
            assert leaf.value(settings) == leaf.value(defaults), key


async def test_every_key_of_the_configuration_can_be_given_or_is_wired(helm: Helm, tmp_path: Path) -> None:
    """Each with its default; what the chart wires is refused."""
    for key, leaf in leaves().items():
        table, name = ".".join(leaf.path[:-1]), leaf.path[-1]
        if table in ("", "observability"):
            continue
        wired = name in chart.WIRED.get(table, frozenset())
        values: Any = leaf.default
        for part in reversed(("config", *leaf.path)):
            values = {part: values}
        assert (await helm.template(values)).code == (1 if wired else 0), key


def test_every_default_of_the_file_is_documented() -> None:
    """The table has each value once; what is no table has a comment."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    for value in chart.values():
        assert text.count(f"| `{'.'.join(value.path)}` |") == 1


async def test_a_url_is_called_in_place_of_the_service_and_is_in_the_certificate(helm: Helm, tmp_path: Path) -> None:
    objects = await helm.render({"webhook": {"url": "https://hook.example.com:8443/mutate"}})
    settings = _read(objects, tmp_path)
    assert settings.certs.extra_sans == ("hook.example.com",)
    for each in objects:
        if each["kind"] == "MutatingWebhookConfiguration":
            assert each["webhooks"][0]["clientConfig"] == {"url": "https://hook.example.com:8443/mutate"}


def _read(objects: list[Object], folder: Path) -> Settings:
    file = folder / "ebbtide.toml"
    file.write_text(only(objects, "ConfigMap", "ebbtide-config")["data"]["ebbtide.toml"], encoding="utf-8")
    return load(file, {}).settings
