"""What `helm install` says in the end: how to look at it, what to do next, and how it is removed."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from ebbtide.cli.main import command_line
from tests.chart.helm import CHART, NAMESPACE, Helm, Values

QUEUE = {"signals": {"sqs": {"queue-url": "https://sqs.eu-central-1.amazonaws.com/1/q"}}}
NO_SIGNALS = "Nothing of this release raises signals."


async def notes(folder: Path, values: Values) -> str:
    said = await Helm("helm4", folder).run(
        "install", "ebbtide", str(CHART), "--dry-run=client", "--namespace", NAMESPACE, values=values
    )
    assert said.code == 0, said.err
    return said.out.partition("\nNOTES:\n")[2]


@pytest.mark.parametrize(
    ("values", "whom"),
    [
        ({}, "\"pod/$(kubectl -n ebbtide-system get lease ebbtide-reconciler -o jsonpath='{.spec.holderIdentity}')\""),
        ({"reconciler": {"dryRun": True}}, "deployment/ebbtide-reconciler"),
    ],
)
async def test_the_page_is_that_of_the_leader_and_in_a_dry_run_that_of_anybody(
    values: Values, whom: str, tmp_path: Path
) -> None:
    """A dry run takes no lease."""
    assert f"    kubectl -n ebbtide-system port-forward {whom} 8080\n" in await notes(tmp_path, values)


@pytest.mark.parametrize(
    ("values", "told"), [({}, True), ({"agent": {"enabled": True}}, False), ({"config": QUEUE}, False)]
)
async def test_that_nothing_raises_signals_is_said_where_it_is_so(
    values: dict[str, Any], told: bool, tmp_path: Path
) -> None:
    assert (NO_SIGNALS in await notes(tmp_path, values)) == told


EXISTING = {"mode": "existing", "existingSecret": "mine"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, True),
        ({"webhook": {"pods": {"enabled": False}}}, False),
        ({"webhook": {"replicas": 0}}, False),
        ({"reconciler": {"dryRun": True}}, False),
        ({"reconciler": {"dryRun": True}, "certificates": EXISTING}, True),
    ],
    ids=["by default", "without its way in", "without a webhook", "without a certificate", "with somebody else's"],
)
async def test_its_own_test_is_named_where_it_can_pass(values: Values, told: bool, tmp_path: Path) -> None:
    assert ("    helm test ebbtide -n ebbtide-system\n" in await notes(tmp_path, values)) == told


@pytest.mark.parametrize(("replicas", "told"), [(1, True), (0, False)])
async def test_a_webhook_is_waited_for_where_there_is_one(replicas: int, told: bool, tmp_path: Path) -> None:
    said = await notes(tmp_path, {"webhook": {"replicas": replicas}})
    assert ("rollout status deployment ebbtide-webhook\n" in said) == told
    assert "rollout status deployment ebbtide-reconciler\n" in said


async def test_whom_to_trust_is_said_before_somebody_waits_for_a_webhook_that_is_not_ready_without(
    tmp_path: Path,
) -> None:
    said = await notes(tmp_path, {"certificates": EXISTING})
    assert said.index("kubectl patch") < said.index("rollout status")


async def test_every_command_of_ebbtide_is_one_that_there_is(tmp_path: Path) -> None:
    found = re.findall(r"(?:^ {4}|-- )ebbtide (.*)$", await notes(tmp_path, {}), re.MULTILINE)
    commands = [shlex.split(each) for each in found]
    assert {words[0] for words in commands} == {"status", "preflight", "cleanup"}
    for words in commands:
        command_line("ebbtide", words).parse_args(words)
