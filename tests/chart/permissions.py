"""What the roles of a rendered chart grant, and whether that is what a program says it needs, or has asked for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from ebbtide.kube.permissions import Need
from tests.chart.helm import Object

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class Asked:
    """What one request has asked for, in RBAC's words (`pods/eviction`); `namespace` and `name` are "" for none."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Grant:
    """One verb on one resource (`pods/eviction`); `namespace` is "" for all of them, `names` empty for any name."""

    verb: str
    group: str
    resource: str
    namespace: str
    names: frozenset[str]

    def covers(self, need: Need) -> bool:
        """Whether this permits what is needed."""
        named = not self.names or need.names_open or need.name in self.names
        return self.is_for(need) and self.namespace in ("", need.namespace) and named

    def permits(self, asked: Asked) -> bool:
        """Whether this permits that request."""
        same = (self.verb, self.group, self.resource) == (asked.verb, asked.group, asked.resource)
        return same and self.namespace in ("", asked.namespace) and (not self.names or asked.name in self.names)

    def is_for(self, need: Need) -> bool:
        """Whether this is about the same verb and resource."""
        return (self.verb, self.group, self.resource) == (need.verb, need.resource.group, path(need))


def path(need: Need) -> str:
    return "/".join(part for part in (need.resource.plural, need.subresource) if part)


def granted(objects: list[Object], account: str) -> list[Grant]:
    """Everything that a ServiceAccount of the release is granted."""
    roles = {key(each): each for each in objects if each["kind"] in ("Role", "ClusterRole")}
    found: list[Grant] = []
    for binding in objects:
        if account in [subject["name"] for subject in binding.get("subjects", ())]:
            namespace = binding["metadata"].get("namespace", "")
            role = roles[binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]]
            found += [grant for rule in role["rules"] for grant in _grants(rule, namespace)]
    return found


def asked(method: str, path: str, status: int) -> list[Asked]:
    """What the API server has asked RBAC about a request that it has answered with that status (as it does itself:
    k8s.io/apiserver/pkg/endpoints/request/requestinfo.go). Empty for what is no resource."""
    url = urlsplit(path)
    parts = [unquote(part) for part in url.path.strip("/").split("/")]
    if parts[0] not in ("api", "apis") or len(parts) < (3 if parts[0] == "api" else 4):
        return []
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""
    resource, name, subresource, *_ = [*(rest[2:] if len(rest) > 2 and namespace else rest), "", "", ""]
    query = parse_qs(url.query)
    verb = _VERBS.get(method) or _verb_of(method, query, named=bool(name))
    field, _, value = query.get("fieldSelector", [""])[0].partition("=")
    if verb in ("list", "watch") and field == "metadata.name":
        name = value
    made = "create" if method == "PATCH" and status == 201 else ""  # by server-side apply
    known = "/".join(filter(None, (resource, subresource)))
    return [Asked(each, group, known, namespace, name) for each in (verb, made) if each]


def _verb_of(method: str, query: dict[str, list[str]], *, named: bool) -> str:
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    if query.get("watch", ["false"])[0] in ("true", "1"):
        return "watch"
    return "get" if named else "list"


def unused(grants: Iterable[Grant], requests: Iterable[Asked]) -> list[Grant]:
    """Those that no request has needed. A request needs one of those that permit it: the narrowest."""
    narrow_first = sorted(grants, key=lambda grant: (not grant.namespace, not grant.names))
    needed = {next((grant for grant in narrow_first if grant.permits(each)), None) for each in requests}
    return [grant for grant in narrow_first if grant not in needed]


def key(role: Object) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _grants(rule: Object, namespace: str) -> Iterator[Grant]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Grant(verb, group, resource, namespace, frozenset(rule.get("resourceNames", ())))
