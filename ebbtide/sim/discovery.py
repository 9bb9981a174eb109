"""What the server says about itself: version, health, and the list of what it serves."""

from typing import Any, Final

from ebbtide.sim.kinds import KINDS, PODS, Kind

VERSION: Final = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2+embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def document(path: str) -> dict[str, Any] | None:
    """The answer to a GET of that path, None when it is none of these."""
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _groups()]}
    return _RESOURCES.get(path)


def _groups() -> list[str]:
    return [*dict.fromkeys(kind.group for kind in KINDS if kind.group), "authorization.k8s.io"]


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resources(api_version: str, kinds: list[Kind]) -> dict[str, Any]:
    resources = [entry for kind in kinds for entry in _entries(kind)]
    if api_version == "authorization.k8s.io/v1":
        resources.append(
            _entry("selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False, verbs=["create"])
        )
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def _entries(kind: Kind) -> list[dict[str, Any]]:
    entries = [_entry(kind.plural, kind.kind, namespaced=kind.namespaced, verbs=_VERBS)]
    entries[0]["shortNames"] = list(kind.short_names)
    if kind.has_status:
        verbs = ["get", "patch", "update"]
        entries.append(_entry(f"{kind.plural}/status", kind.kind, namespaced=kind.namespaced, verbs=verbs))
    if kind is PODS:
        eviction = _entry("pods/eviction", "Eviction", namespaced=True, verbs=["create"])
        entries.append({**eviction, "group": "policy", "version": "v1"})
        entries.append(_entry("pods/binding", "Binding", namespaced=True, verbs=["create"]))
    return entries


def _entry(name: str, kind: str, *, namespaced: bool, verbs: list[str]) -> dict[str, Any]:
    return {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs}


_RESOURCES: Final = {
    f"/apis/{name}/v1" if name else "/api/v1": _resources(
        f"{name}/v1" if name else "v1", [kind for kind in KINDS if kind.group == name]
    )
    for name in ("", *_groups())
}
