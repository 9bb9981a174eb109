"""The whole clean-up: look whether a reconciler leads, read, decide, remove, and look again until nothing is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ebbtide.cleanup.act import Account, Act
from ebbtide.cleanup.decide import Plan, Rules, decide
from ebbtide.cleanup.leader import Leader, leader
from ebbtide.cleanup.snapshot import Facts, read, reads
from ebbtide.cleanup.workers import Workers
from ebbtide.config import Settings
from ebbtide.config.names import is_label_key
from ebbtide.counting import count
from ebbtide.errors import ClusterAccessError, EbbtideError, UsageError
from ebbtide.kube.client import Client
from ebbtide.kube.permissions import Need, lacks, refused
from ebbtide.vocabulary import PREVENT_TAINT_KEY, SIGNAL_TAINT_KEY, TO_BE_DELETED_TAINT_KEY

# What is found in the first one is gone after it; the second sees what came meanwhile, the third is for a busy cluster.
_MOST_SWEEPS: Final = 3
# Kubernetes keeps these domains, and those below them, for itself: conditions, roles and other programs of its own.
_RESERVED: Final = (".kubernetes.io", ".k8s.io")


@dataclass(frozen=True, slots=True)
class Options:
    """`tell` gets sentences for people: what is waited for, what is begun."""

    dry_run: bool
    forced: bool
    tell: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """How it ended. `plan` is what was found at first; `leader` leads (only with a dry run or by force)."""

    plan: Plan
    leader: Leader | None


def rules_of(settings: Settings, earlier_keys: Sequence[str] = ()) -> Rules:
    """The words of that configuration. Our default key is ours under any configuration.

    Raises UsageError for an earlier key that ebbtide cannot have used.
    """
    rebalance, scaler = settings.node_rebalance, settings.worker_scaler
    for key in earlier_keys:
        if why := _foreign(key, rebalance.rebalance_signal_taint_key):
            raise UsageError(f"--taint-key {key!r}: {why}; give the prevent taint's key of an earlier configuration")
    return Rules(
        taint_keys=frozenset({rebalance.prevent_ca_scale_up_taint_key, PREVENT_TAINT_KEY, *earlier_keys}),
        signal_key=rebalance.rebalance_signal_taint_key,
        namespace=settings.home,
        lease=settings.leader_election.lease_name,
        secret=settings.certs.secret_name if settings.certs.mode == "self-managed" else "",
        workers=Workers(scaler.namespace, scaler.shared_pool_name) if scaler.run else None,
    )


def _foreign(key: str, signal_key: str) -> str:
    """Why a taint of that key cannot be ours, "" when it can."""
    if not is_label_key(key):
        return 'not a taint key such as "name" or "example.com/name"'
    if key in (signal_key, SIGNAL_TAINT_KEY):
        return "that is the signal's key, and a signal belongs to the program that raised it"
    prefix, slash, _ = key.rpartition("/")
    if slash and f".{prefix}".endswith(_RESERVED):
        return f"taints under {prefix} belong to Kubernetes"
    if key == TO_BE_DELETED_TAINT_KEY:
        return "that taint belongs to the Cluster Autoscaler"
    return ""


async def clean(client: Client, settings: Settings, rules: Rules, options: Options, account: Account) -> Result:
    """Removes everything of ours, and accounts for it in `account`.

    Raises EbbtideError while a reconciler leads (unless forced), ClusterAccessError where a permission is missing, and
    KubeError. Each sweep begins only when all permissions for it are there.
    """
    await _require(client, reads(rules.namespace, rules.secret, rules.workers))
    leading = await leader(client, settings.leader_election, options.tell)
    if leading is not None and not options.dry_run and not options.forced:
        raise EbbtideError(_refusal(leading))
    plan = decide(await _read(client, rules, options), rules)
    account.planned = len(plan.removals)
    if not options.dry_run:
        await _sweep(client, plan, rules, options, account)
    return Result(plan, leading)


async def _sweep(client: Client, plan: Plan, rules: Rules, options: Options, account: Account) -> None:
    act = Act(client, rules, account, forced=options.forced)
    for _ in range(_MOST_SWEEPS):
        if not plan.removals:
            return
        await _require(client, plan.needs)
        options.tell(f"removing marks of ours from {count(len(plan.removals), 'object')}")
        account.failed.clear()
        await act.remove(removal for removal in plan.removals if not removal.whole)
        await act.remove(removal for removal in plan.removals if removal.whole)
        plan = decide(await _read(client, rules, options), rules)
        # The Lease went with the first sweep, or somebody took it: who holds it now has come since.
        if not options.forced and any(removal.found.holder for removal in plan.removals):
            break
    failed = {at.uid for at, _ in account.failed}
    account.left += [removal.found for removal in plan.removals if removal.found.uid not in failed]


async def _read(client: Client, rules: Rules, options: Options) -> Facts:
    facts = await read(client, rules.lease, rules.namespace, rules.secret, rules.workers)
    options.tell(f"looked at {count(len(facts.nodes), 'node')} and all pods")
    return facts


async def _require(client: Client, needs: Sequence[Need]) -> None:
    if lacking := await refused(client, needs):
        raise ClusterAccessError(
            f"{lacks(client.access.identity, lacking)}\nGrant it, or use another account, and run this again."
        )


def _refusal(leading: Leader) -> str:
    return (
        f"a reconciler leads: {leading.identity} keeps renewing lease {leading.lease}. It would put the taints back "
        "while they are removed. Stop it (scale its Deployment to 0) and run this again; with --force they are "
        "removed all the same."
    )
