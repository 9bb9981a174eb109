"""Would the descheduler empty a whole zone as soon as it is blocked?

Its plug-in RemovePodsViolatingNodeTaints evicts pods that do not tolerate a NoSchedule taint of their node, unless the
taint's key (or `key=value`) is excluded (`pkg/framework/plugins/removepodsviolatingnodetaints`). Policies come in two
shapes: `strategies` (v1alpha1) and `profiles` (v1alpha2).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from ebbtide.config import Settings
from ebbtide.preflight.finding import Finding, Status
from ebbtide.preflight.snapshot import Facts, Policy
from ebbtide.preflight.unread import Unread

_CHECK: Final = "descheduler"
_PLUGIN: Final = "RemovePodsViolatingNodeTaints"


def descheduler(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """One finding for each policy."""
    if isinstance(facts.policies, Unread):
        yield Finding(_CHECK, Status.UNKNOWN, facts.policies.reason)
        return
    if not facts.policies:
        yield Finding(_CHECK, Status.PASS, "no ConfigMap has a descheduler policy")
    for policy in facts.policies:
        yield _judged(policy, settings.node_rebalance.prevent_ca_scale_up_taint_key)


def _judged(policy: Policy, key: str) -> Finding:
    try:
        documents = [each for each in yaml.safe_load_all(policy.text) if isinstance(each, Mapping)]
        uses = [arguments for document in documents for arguments in _uses(document)]
    except (yaml.YAMLError, TypeError, AttributeError) as error:
        problem = str(error).splitlines()[0]
        seen = f"{policy.where} is no policy that can be read: {problem}"
        return Finding(_CHECK, Status.UNKNOWN, seen, cure="mend it, or look at it by hand", objects=(policy.where,))
    if not uses:
        return Finding(_CHECK, Status.PASS, f"{policy.where} does not use {_PLUGIN}", objects=(policy.where,))
    if all(_is_left_alone(key, arguments) for arguments in uses):
        seen = f"{policy.where} uses {_PLUGIN} and leaves {key} alone"
        return Finding(_CHECK, Status.PASS, seen, objects=(policy.where,))
    return Finding(
        _CHECK,
        Status.FAIL,
        f"{policy.where} uses {_PLUGIN} without {key} among excludedTaints",
        "once a zone is blocked the descheduler evicts every pod in it, not only those of signalled nodes",
        f"add {key} to excludedTaints (the bare key: the taint's value is a different time in each block)",
        (policy.where,),
    )


def _uses(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The arguments of the plug-in wherever it is switched on."""
    strategy = (document.get("strategies") or {}).get(_PLUGIN) or {}
    if strategy.get("enabled"):
        yield strategy.get("params") or {}
    for profile in document.get("profiles") or ():
        switched_on = ((profile.get("plugins") or {}).get("deschedule") or {}).get("enabled") or ()
        if _PLUGIN in switched_on:
            configured = [each for each in profile.get("pluginConfig") or () if each.get("name") == _PLUGIN]
            yield (configured[0].get("args") or {}) if configured else {}


def _is_left_alone(key: str, arguments: Mapping[str, Any]) -> bool:
    excluded: Sequence[str] = arguments.get("excludedTaints") or ()
    included: Sequence[str] = arguments.get("includedTaints") or ()
    return key in excluded or (bool(included) and not any(each.partition("=")[0] == key for each in included))
