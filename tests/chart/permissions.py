"""What the roles of a rendered chart grant, and whether they grant what a program asks for."""

from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.kube.permissions import Need
from tests.chart.helm import Object


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


def key(role: Object) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _grants(rule: Object, namespace: str) -> Iterator[Grant]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Grant(verb, group, resource, namespace, frozenset(rule.get("resourceNames", ())))
