"""Golden cases: an object as it comes in, beside it the object as it is stored.

Each folder of `golden/` holds `in.json` and `out.json`, for an update also `old.json`. What else decides is in the row
of the case here: nodes in the words of `raw_nodes`, and settings.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from ebbtide.exclusion.decide import LONGEST_WARNING
from ebbtide.exclusion.decide import Rules as ExclusionRules
from ebbtide.model import CellLabels
from tests.ebbtide.exclusion.builders import DEFAULT_NODES
from tests.webhook.builders import Cluster, admitted
from webhook.decide import Rules

FOLDER = Path(__file__).parent / "golden"
SETTINGS = {
    "default": Rules(),
    "slashed": Rules(labels=CellLabels(group="a.b/c")),
    "shared-group": Rules(exclusion=ExclusionRules(shared_group="g")),
}


@dataclass(frozen=True)
class Case:
    """A folder, and what else decides; `warns` is a part of the warning, "" for none."""

    name: str
    nodes: str = DEFAULT_NODES
    guarded: bool = False
    volumes: tuple[tuple[str, ...], ...] = ()
    rules: str = "default"
    warns: str = ""

    def read(self, which: str) -> Any:
        path = FOLDER / self.name / f"{which}.json"
        return orjson.loads(path.read_bytes()) if path.exists() else None

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.nodes, self.guarded, self.volumes)


CASES = [
    Case("WH-01-bare"),
    Case("WH-02-affinity-null"),
    Case("WH-02-affinity-empty"),
    Case("WH-02-node-affinity-null"),
    Case("WH-02-required-null"),
    Case("WH-02-annotations-null"),
    Case("WH-02-annotations-empty"),
    Case("WH-03-half-of-the-parents"),
    Case("WH-04-template-metadata-empty"),
    Case("WH-04-template-labels-null"),
    Case("WH-04-template-metadata-null"),
    Case("WH-05-slash-in-the-label", rules="slashed"),
    Case("WH-06-two-terms"),
    Case("WH-07-empty-term-and-fields"),
    Case("WH-07-null-expressions-and-fields"),
    Case("WH-08-only-an-empty-term"),
    Case("WH-08-no-term"),
    Case("WH-09-own-affinity"),
    Case("WH-10-superset"),
    Case("WH-10-one-of-two-terms"),
    Case("WH-11-another-zone"),
    Case("WH-11-two-zones-blocked", nodes="a! b! c"),
    Case("WH-12-one-zone-more", nodes="a! b! c"),
    Case("WH-12-one-zone-less"),
    Case("WH-12-nothing-blocked-any-more", nodes="a b c"),
    Case("WH-12-another-zone"),
    Case("WH-13-pinned-into-the-zone", warns="limited to blocked zones"),
    Case("WH-14-tolerations-absent"),
    Case("WH-14-tolerations-null"),
    Case("WH-14-tolerations-empty"),
    Case("WH-14-no-operator-means-equal"),
    Case("WH-14-exists"),
    Case("WH-14-another-key"),
    Case("WH-14-another-value", warns="tolerates node group h"),
    Case("WH-14-another-effect"),
    Case("WH-15-fields-of-a-newer-cluster"),
    Case("WH-17-no-name-yet"),
    Case("WH-18-bound"),
    Case("WH-18-mirror"),
    Case("WH-18-of-a-daemon-set"),
    Case("WH-18-tolerates-the-block"),
    Case("WH-18-tolerates-everything"),
    Case("WH-18-not-opted-in"),
    Case("WH-18-labels-null"),
    Case("WH-18-opted-out-of-a-pool"),
    Case("WH-18-opted-out-in-a-guarded-namespace", guarded=True),
    Case("WH-63-plain-pod", guarded=True),
    Case("WH-63-labelled-pod", guarded=True),
    Case("WH-63-plain-set", guarded=True),
    Case("WH-19-replicas"),
    Case("WH-19-annotations"),
    Case("WH-19-finalizers"),
    Case("WH-20-bare-set"),
    Case("WH-21-real-change"),
    Case("WH-22-selector-before-label"),
    Case("WH-22-only-the-label"),
    Case("WH-22-group-of-the-shared-pool", rules="shared-group"),
    Case("WH-22-no-group"),
    Case("WH-22-guard-only"),
    Case("WH-22-dedicated"),
    Case("WH-23-one-of-ten", nodes="a! a a a a a a a a a b c"),
    Case("WH-23-dying-node", nodes="a!~ a b c"),
    Case("WH-23-another-group", nodes="a b c h/a! h/b"),
    Case("WH-23-two-zones", nodes="a! b c!"),
    Case("WH-24-selector-before-label", nodes="a! a b c h/a h/b"),
    Case("WH-24-affinity-before-label", nodes="a! a b c h/a h/b"),
    Case("WH-24-only-the-label", nodes="a! a b c h/a h/b"),
    Case("WH-24-several-groups", nodes="a! a b c h/a h/b"),
    Case("WH-24-no-group", nodes="a! a b c h/a h/b"),
    Case("WH-24-no-group-blocked-for-both", nodes="a! a b c h/a! h/b"),
    Case("WH-25-old-zone-label", nodes="a!' a' b' c'"),
    Case("WH-25-both-zone-labels", nodes="a!' a b' c"),
    Case("WH-26-no-zone-left", nodes="a! b! c!", warns="All zones are blocked"),
    Case("WH-26-one-zone-left", nodes="a! b! c"),
    Case("WH-26-pool-pod-without-a-zone", nodes="a! b! c!", warns="All zones are blocked"),
    Case("WH-27-volume-in-the-zone", volumes=(("a",),), warns="volume of the pod lies"),
    Case("WH-27-and-another-zone", nodes="a! b! c", volumes=(("a",),), warns="volume of the pod lies"),
    Case("pinned-already"),
    Case("dedicated-pod"),
    Case("own-spreading-stays"),
    Case("pool-pod-with-several-groups", nodes="a! a b c h/a h/b"),
]


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_object_is_stored_as_the_file_says(case: Case) -> None:
    """Byte for byte in the order of its keys too, and with the warning that the case names, at most one."""
    stored, decision, ops = admitted(case.read("in"), case.read("old"), case.cluster, SETTINGS[case.rules])
    assert orjson.dumps(stored) == orjson.dumps(case.read("out"))
    assert {each["op"] for each in ops} <= {"add", "replace"}
    assert (case.warns in decision.warning) if case.warns else not decision.warning
    assert len(decision.warning) <= LONGEST_WARNING


@pytest.mark.parametrize("case", CASES, ids=named)
def test_what_is_stored_is_not_changed_again(case: Case) -> None:
    """WH-16: the second call, for whatever reason it comes, finds nothing to do."""
    _, _, ops = admitted(case.read("out"), case.read("old"), case.cluster, SETTINGS[case.rules])
    assert ops == []


def test_every_folder_is_a_case() -> None:
    """A file that nothing reads proves nothing."""
    assert sorted(case.name for case in CASES) == sorted(path.name for path in FOLDER.iterdir())
