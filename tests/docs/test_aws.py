"""The commands and files for AWS on the page about signals, against moto: what comes of them is read as it has to be.

The command line of AWS is not here: its words are put into requests by the same descriptions of the services that it
is made of, which refuse what there is not.
"""

import json
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from aiobotocore.session import get_session
from botocore import xform_name

from reconciler.signals.envelope import INTERRUPTION, REBALANCE
from tests.docs.commands import ROOT, commands_of
from tests.reconciler.signals.sqs import CREDENTIALS, REGION, Gate, QueueOfTest, gate, moto
from tests.reconciler.signals.stage import reading, stage

PAGE: Final = ROOT / "docs" / "signals.md"
TEXTS: Final = [each.text for each in commands_of(PAGE) if each.text.startswith("aws ")]
# The file of that name, which the page shows below its name; and the policy, which has none.
FILES: Final = re.findall(
    r"^(?:`(\S+\.json)`|What the reconciler needs of AWS)[^\n]*\n\n```json\n(.*?)```",
    PAGE.read_text(encoding="utf-8"),
    flags=re.MULTILINE | re.DOTALL,
)
WHEN: Final = datetime(2026, 3, 1, 11, 58, tzinfo=UTC)


class Aws:
    """The services that the page names, on one server."""

    def __init__(self, services: dict[str, Any], server: str) -> None:
        self._services = services
        self.server = server

    async def types(self, text: str) -> dict[str, Any]:
        """`aws SERVICE OPERATION --option value …`."""
        _, service, operation, *words = shlex.split(text)
        client = self._services[service]
        name = next(each for each in client.meta.service_model.operation_names if xform_name(each, "-") == operation)
        members = client.meta.service_model.operation_model(name).input_shape.members
        known = {f"--{xform_name(each, '-')}": (each, shape) for each, shape in members.items()}
        given = dict(zip(words[::2], words[1::2], strict=True))
        values = {known[option][0]: _value(known[option][1], value) for option, value in given.items()}
        answer: dict[str, Any] = await getattr(client, operation.replace("-", "_"))(**values)
        return answer

    async def happens(self, kind: str, instance: str, **detail: str) -> None:
        """An event of EC2, as its user guide shows it."""
        event = {
            "Source": "aws.ec2",
            "DetailType": kind,
            "Time": WHEN,
            "Resources": [f"arn:aws:ec2:{REGION}a:instance/{instance}"],
            "Detail": json.dumps({"instance-id": instance, **detail}),
        }
        assert (await self._services["events"].put_events(Entries=[event]))["FailedEntryCount"] == 0

    async def queue(self, name: str) -> QueueOfTest:
        url = (await self._services["sqs"].get_queue_url(QueueName=name))["QueueUrl"]
        return QueueOfTest(self._services["sqs"], url)

    async def attributes(self, name: str) -> dict[str, str]:
        asked = {"QueueUrl": (await self.queue(name)).url, "AttributeNames": ["All"]}
        found: dict[str, str] = (await self._services["sqs"].get_queue_attributes(**asked))["Attributes"]
        return found


def _value(shape: Any, text: str) -> Any:
    """As the command line takes it: a text, a file, or the short form of a list of structures."""
    if text.startswith("file://"):
        content = dict(FILES)[text.removeprefix("file://")]
        return content if shape.type_name == "string" else json.loads(content)
    if shape.type_name == "list":
        return [dict(part.split("=", 1) for part in text.split(","))]
    return text


@pytest.fixture
async def aws(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Aws]:
    """An account in which the page was followed."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(moto())
        services = {
            name: await stack.enter_async_context(
                get_session().create_client(name, region_name=REGION, endpoint_url=server)
            )
            for name in ("sqs", "events")
        }
        made = Aws(services, server)
        assert len(TEXTS) == 4
        for text in TEXTS:
            answer = await made.types(text)
            assert not answer.get("FailedEntryCount"), answer
        yield made


async def test_what_ec2_says_arrives_as_it_is_read_and_all_else_stays_out(aws: Aws) -> None:
    """By rule, target and queue of the page; the reader then asks for no more than the policy of the page lets it."""
    queue = await aws.queue("ebbtide-spot")
    await aws.happens("EC2 Instance State-change Notification", "i-3", state="running")
    await aws.happens(REBALANCE, "i-1")
    await aws.happens(INTERRUPTION, "i-2", **{"instance-action": "terminate"})
    assert await queue.depth() == 2
    async with stage() as on, gate(aws.server) as way:
        on.add_node("a1", "i-1")
        on.add_node("a2", "i-2")
        async with reading(on.reader(way.through(queue))):
            await queue.emptied()
        seconds = int(WHEN.timestamp())
        assert await on.signals("a1") == [str(seconds)]
        assert (await on.raw("a2"))["metadata"]["annotations"]
        assert on.count("stored") == 2
    assert _allowed() == {f"sqs:{action}" for action in _asked(way)}


def _asked(way: Gate) -> set[str]:
    """A permission for one action is one for its batches."""
    return {action.removesuffix("Batch") for action in way.actions}


def _allowed() -> set[str]:
    (statement,) = json.loads(dict(FILES)[""])["Statement"]
    assert statement["Effect"] == "Allow"
    return {*statement["Action"]}


async def test_the_queue_is_as_the_page_says(aws: Aws) -> None:
    """Who may send is whom the rule of the page is, and what is put aside goes to the queue that was made for it."""
    found = await aws.attributes("ebbtide-spot")
    given = json.loads(dict(FILES)["queue.json"])
    plain = {name: value for name, value in given.items() if not value.startswith("{")}
    assert plain.items() <= {name: value.lower() for name, value in found.items()}.items()
    dead = await aws.attributes("ebbtide-spot-dead")
    redrive = json.loads(found["RedrivePolicy"])
    assert redrive["deadLetterTargetArn"] == dead["QueueArn"]
    (statement,) = json.loads(found["Policy"])["Statement"]
    assert statement["Resource"] == found["QueueArn"]
    assert statement["Action"] == "sqs:SendMessage"
    rule = await aws.types("aws events describe-rule --name ebbtide-spot")
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": rule["Arn"]}}
    assert rule["State"] == "ENABLED"
