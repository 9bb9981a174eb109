"""The metric of the API server that an alert and the dashboard stand on: pods that were let in unasked."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ebbtide import vocabulary
from tests.chart.helm import CHART
from tests.chart.metrics import expressions
from tests.controlplane.build import tool
from tests.controlplane.program import Scrape
from tests.controlplane.webhook import registrations
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

METRIC: Final = "apiserver_admission_webhook_fail_open_count"
ALERT: Final = "EbbtideWebhookFailOpen"
ENTRY: Final = "pods.ebbtide.dev"
OF_POOL: Final = {vocabulary.POOL_LABEL: vocabulary.POOL_DEDICATED}


async def test_a_pod_that_is_let_in_unasked_is_counted_where_the_alert_looks(
    cluster: World, tmp_path: Path, unused_tcp_port: int
) -> None:
    """As the chart registers it by default, with nobody who listens: the pod is there as it was sent, its entry is the
    one that is counted, and Prometheus fires upon exactly what the API server then tells."""
    before = await told(cluster)
    # Prometheus cannot see a first failure as a rise: there is no zero before it.
    assert 0 not in before.values()
    async with registrations(cluster, {"url": f"https://127.0.0.1:{unused_tcp_port}/mutate"}, {}):
        numbers = count()

        async def rises() -> dict[str, float]:
            pod = await cluster.pod(f"unasked-{next(numbers)}", labels=OF_POOL)
            assert pod["metadata"]["labels"] == OF_POOL | {"app": pod["metadata"]["name"]}
            return {series: now for series, now in (await told(cluster)).items() if now > before.get(series, 0)}

        # The API server follows registrations, and is a moment late.
        after = await cluster.wait_until(rises, "a pod that was let in is counted")
    assert [series for series in after if f'name="{ENTRY}"' in series] == [*after]
    assert [expression for expression in expressions() if METRIC in expression]
    await fires(tmp_path, {series: [before.get(series)] * 7 + [now] * 3 for series, now in after.items()})


async def told(cluster: World) -> Mapping[str, float]:
    """The metric by series, as the API server writes it."""
    answer = await cluster.client.request("GET", "/metrics")
    samples = Scrape.of(answer.body.decode()).samples
    return {series: value for series, value in samples.items() if series.startswith(f"{METRIC}{{")}


async def fires(folder: Path, series: Mapping[str, Sequence[float | None]]) -> None:
    """The alert, where Prometheus reads these values at a minute's distance: in the eighth minute, and not before."""
    groups = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if rule["alert"] == ALERT]
    for rule in rules:
        del rule["annotations"]
    labels = {"severity": "critical", "name": ENTRY}
    cases: list[dict[str, Any]] = [
        {"alertname": ALERT, "eval_time": "6m", "exp_alerts": []},
        {"alertname": ALERT, "eval_time": "8m", "exp_alerts": [{"exp_labels": labels}]},
    ]
    read = {each: " ".join("_" if value is None else str(value) for value in values) for each, values in series.items()}
    told = [{"series": each, "values": values} for each, values in {**read, "up": "1x9"}.items()]
    test = {"interval": "1m", "input_series": told, "alert_rule_test": cases}
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "rules", "rules": rules}]}))
    (folder / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    testing = await asyncio.create_subprocess_exec(
        *(tool("promtool"), "test", "rules", str(folder / "tests.yaml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await testing.communicate()
    assert testing.returncode == 0, out.decode()
