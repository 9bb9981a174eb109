"""`ebbtide explain pod -f`: what admission would do with a manifest, as the webhook itself decides it."""

from collections.abc import Callable
from pathlib import Path

import jsonpatch
import orjson
import pytest
import yaml

from ebbtide import vocabulary
from ebbtide.cli.admission import objects
from ebbtide.errors import UsageError
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from tests.ebbtide.cli.commands import Ended, kubeconfig, run
from tests.ebbtide.exclusion.builders import Raw, pod, raw_nodes


async def explained(folder: Path, manifest: str, *words: str) -> Ended:
    """About a manifest, on a cluster of which zone a of group g is blocked."""
    file = folder / "manifest.yaml"
    file.write_text(manifest)
    async with Cluster() as cluster:
        for raw in raw_nodes("a! a b c"):
            del raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
            cluster.create({"apiVersion": "v1", "kind": "Node", **raw})
        config = kubeconfig(folder, await cluster.serve())
        return await run("explain", "pod", "-f", str(file), "--kubeconfig", str(config), *words)


async def test_a_guarded_pod_is_told_with_its_patch(tmp_path: Path) -> None:
    ended = await explained(tmp_path, yaml.safe_dump(pod()))
    assert ended.code == 0, ended.err
    assert "pod default/web-*: mutated" in ended.out
    assert "because  blocked for it: a" in ended.out
    assert "add      /spec/affinity" in ended.out


async def test_the_json_form_has_a_patch_that_applies(tmp_path: Path) -> None:
    ended = await explained(tmp_path, orjson.dumps(pod()).decode(), "--output", "json")
    document: Raw = orjson.loads(ended.out)
    assert (document["state"], document["zones"]) == ("mutated", ["a"])
    stored = jsonpatch.apply_patch(pod(), document["patch"])
    assert stored["metadata"]["annotations"] == {vocabulary.BLOCKED_ZONES_ANNOTATION: "a"}


async def test_each_object_of_a_manifest_is_told(tmp_path: Path) -> None:
    """Also those that are left alone, and why."""
    shared = {"metadata": {"name": "s", "labels": {vocabulary.POOL_LABEL: "shared"}}, "spec": {"template": {}}}
    listed = {"kind": "List", "items": [pod(labels={}), {"apiVersion": "apps/v1", "kind": "StatefulSet", **shared}]}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    ended = await explained(tmp_path, yaml.safe_dump_all([listed, other]))
    assert "nothing opts it in" in " ".join(ended.out.split())
    assert "statefulset default/s: mutated" in ended.out
    assert "configmap default/c: skipped" in ended.out


@pytest.mark.parametrize("fields", [{"metadata": "hi"}, {"metadata": {"namespace": {"a": "b"}}}, {"spec": 5}])
async def test_fields_of_a_wrong_type_make_an_unusable_argument(tmp_path: Path, fields: Raw) -> None:
    ended = await explained(tmp_path, yaml.safe_dump({**pod(), **fields}))
    assert (ended.code, ended.out) == (2, "")
    assert "manifest.yaml: the object makes no sense: " in ended.err


@pytest.mark.parametrize("content", ["", "just text", "a: [", "kind: List", "[" * 3_000, '{"a":' * 3_000])
def test_a_file_without_objects_is_an_unusable_argument(tmp_path: Path, content: str) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"manifest\.yaml"):
        objects(str(file))


async def test_an_object_of_wrong_types_is_an_unusable_argument(tmp_path: Path) -> None:
    ended = await explained(tmp_path, yaml.safe_dump(pod(tolerations="text")))
    assert (ended.code, "tolerations is no list but str" in ended.err) == (2, True)


async def about_a_pod(folder: Path, stored: Raw, *words: str, before: Callable[[Cluster], None] | None = None) -> Ended:
    """About a pod of that cluster, as it is stored."""
    async with Cluster() as cluster:
        for raw in raw_nodes("a! a b c"):
            del raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
            cluster.create({"apiVersion": "v1", "kind": "Node", **raw})
        cluster.create({**stored, "metadata": {**stored["metadata"], "name": "p", "namespace": "default"}})
        if before is not None:
            before(cluster)
        config = kubeconfig(folder, await cluster.serve())
        return await run("explain", "pod", "default/p", "--kubeconfig", str(config), *words)


async def test_of_a_pod_that_runs_it_is_told_what_would_be_done_now(tmp_path: Path) -> None:
    """As though it had no node yet; the patch fits to the object that is there."""
    stored = pod(nodeName="n2")
    ended = await about_a_pod(tmp_path, stored, "--output", "json")
    document: Raw = orjson.loads(ended.out)
    found = document["facts"]["admission"]
    assert (document["state"], found["state"], found["zones"]) == ("stays", "mutated", ["a"])
    assert "affinity" in jsonpatch.apply_patch(stored, found["patch"])["spec"]


async def test_of_a_pod_that_waits_it_is_told_in_words(tmp_path: Path) -> None:
    ended = await about_a_pod(tmp_path, pod())
    said = " ".join(ended.out.split())
    assert "if it were created now it would be changed: blocked for it: a" in said
    assert "add /metadata/annotations" in said
    left = await about_a_pod(tmp_path, pod(labels={}))
    assert "it would be left alone: nothing opts it in" in " ".join(left.out.split())


async def test_what_admission_would_do_is_not_known_without_the_rights(tmp_path: Path) -> None:
    """The rest of the answer is there all the same."""

    def forbid(cluster: Cluster) -> None:
        cluster.faults.inject(Answer(403, "Forbidden"), When(path="/api/v1/persistentvolumes"))

    ended = await about_a_pod(tmp_path, pod(nodeName="n2"), before=forbid)
    said = " ".join(ended.out.split())
    assert ended.code == 0, ended.err
    assert "pod default/p: stays" in said
    assert "not known what admission would do with it: " in said
