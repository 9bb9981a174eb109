"""What a scenario promises, as checks of what was seen: some must come true, others must be true all the time."""

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.cli.demo.chronicle import Chronicle, Moment, What, absences, most_away
from ebbtide.cli.demo.scene import Scene


@dataclass(frozen=True, slots=True)
class Evidence:
    """What has happened so far, and how things stand now."""

    chronicle: Chronicle
    scene: Scene


@dataclass(frozen=True, slots=True)
class Promise:
    """`words` completes "that …". `missing` says what is against it, "" when it holds."""

    words: str
    missing: Callable[[Evidence], str]


# --- that must come true ---------------------------------------------------------------------------------------------


def reaches(group: str, zone: str, state: str) -> Promise:
    """The cell has been, or is, in that state, in the reconciler's own word."""

    def missing(evidence: Evidence) -> str:
        seen = [moment.who for moment in evidence.chronicle.of(What.ZONE) if moment.zone == f"{group}/{zone}"]
        return "" if state in seen else f"zone {zone} has been {', '.join(seen) or 'open'}, never {state}"

    return Promise(f"zone {zone} is {state}", missing)


def ends_open(group: str, zone: str) -> Promise:
    """The block is over: the reconciler says so, and no node carries the taint."""

    def missing(evidence: Evidence) -> str:
        tainted = [node.name for node in evidence.scene.in_zone(zone) if node.prevented]
        state = evidence.scene.state_of(group, zone)
        if tainted:
            return f"{', '.join(tainted)} still carries the no-growth taint"
        return "" if state == "open" else f"zone {zone} is {state}"

    return Promise(f"zone {zone} is open again at the end", missing)


def everything_serves() -> Promise:
    def missing(evidence: Evidence) -> str:
        scene = evidence.scene
        if scene.waiting:
            return f"{scene.waiting[0].name} is Pending: {scene.waiting[0].refusal or 'not looked at yet'}"
        return "" if scene.serving == scene.wanted else f"{scene.serving} of {scene.wanted} pods are Ready"

    return Promise("every pod is Ready", missing)


def moves_out(zone: str) -> Promise:
    """Pods were evicted from the zone, and what took their place runs elsewhere."""

    def missing(evidence: Evidence) -> str:
        evicted = {moment.who for moment in evidence.chronicle.of(What.EVICTED)}
        if not evicted:
            return "no pod was evicted"
        back = sorted(pod for pod in evicted if evidence.scene.zone_of(pod) == zone)
        if back:
            return f"{', '.join(back)} is in zone {zone}"
        left = [a.slot for a in absences(evidence.chronicle) if a.until is None]
        return f"nothing has taken the place of {', '.join(left)}" if left else ""

    return Promise(f"the evicted pods come up outside of zone {zone}", missing)


def empties_signalled(group: str) -> Promise:
    """Whoever waits on a signalled node for a budget has left it, too."""

    def missing(evidence: Evidence) -> str:
        for node in evidence.scene.nodes:
            if node.group == group and node.signal_age is not None and node.pods:
                return f"{node.pods[0].name} is still on {node.name}"
        return ""

    return Promise("no pod is left on a signalled node", missing)


def grows(zone: str) -> Promise:
    def missing(evidence: Evidence) -> str:
        added = [moment.zone for moment in evidence.chronicle.of(What.NODE_ADDED)]
        return "" if zone in added else f"no node was added in zone {zone}"

    return Promise(f"the autoscaler adds a node in zone {zone}", missing)


def tells(reason: str) -> Promise:
    """The reconciler has written an event with that reason."""

    def missing(evidence: Evidence) -> str:
        told = any(moment.who == reason for moment in evidence.chronicle.of(What.EVENT, What.WARNING))
        return "" if told else f"there is no event {reason}"

    return Promise(f"an event {reason} tells of it", missing)


def refused_first() -> Promise:
    """A budget has refused an eviction that was accepted later."""

    def missing(evidence: Evidence) -> str:
        refused = evidence.chronicle.of(What.REFUSED)
        if not refused:
            return "no eviction was refused by a budget"
        for moment in evidence.chronicle.of(What.EVICTED):
            if any(earlier.who == moment.who and earlier.at < moment.at for earlier in refused):
                return ""
        return f"{refused[0].who} was refused and not evicted later"

    return Promise("a pod that its budget holds back is evicted later", missing)


# --- that must be true all the time ----------------------------------------------------------------------------------


def never(words: str, *kinds: What) -> Promise:
    """Nothing of the kind happens."""

    def missing(evidence: Evidence) -> str:
        found = evidence.chronicle.of(*kinds)
        return f"{found[0].who} at {found[0].at:.0f} s" if found else ""

    return Promise(words, missing)


def taints_only(group_prefix: str, zone: str) -> Promise:
    """No node outside of the cell gets the taint. The cell's nodes are known by the beginning of their names."""

    def stray(moment: Moment) -> bool:
        return moment.zone != zone or not moment.who.startswith(group_prefix)

    def missing(evidence: Evidence) -> str:
        strays = [moment.who for moment in evidence.chronicle.of(What.TAINTED) if stray(moment)]
        return f"{', '.join(strays)} was tainted" if strays else ""

    return Promise("no node of another zone or node group is tainted", missing)


def waits_first(seconds: float) -> Promise:
    """The first taint comes after the first signal has reached that age."""

    def missing(evidence: Evidence) -> str:
        signals, taints = evidence.chronicle.of(What.SIGNALLED), evidence.chronicle.of(What.TAINTED)
        if signals and taints and taints[0].at - signals[0].at < seconds:
            return f"{taints[0].who} was tainted {taints[0].at - signals[0].at:.0f} s after the signal"
        return ""

    return Promise(f"nothing is tainted before the signal is {seconds:.0f} s old", missing)


def taints_newcomers(zone: str, within: float) -> Promise:
    """Nodes that appear in the blocked zone are tainted at once, before any pod gets there."""

    def missing(evidence: Evidence) -> str:
        taints = {moment.who: moment.at for moment in evidence.chronicle.of(What.TAINTED)}
        newcomers = [moment for moment in evidence.chronicle.of(What.NODE_ADDED) if moment.zone == zone]
        if not newcomers:
            return f"no node has appeared in zone {zone}"
        for moment in newcomers:
            if taints.get(moment.who, float("inf")) - moment.at > within:
                return f"{moment.who} was not tainted within {within:g} s"
        used = {moment.node for moment in evidence.chronicle.of(What.POD_PLACED)}
        return next((f"a pod came to {moment.who}" for moment in newcomers if moment.who in used), "")

    return Promise(f"a node that appears in zone {zone} is tainted within {within:g} s and gets no pod", missing)


def never_grows(zone: str) -> Promise:
    def missing(evidence: Evidence) -> str:
        added = [moment.who for moment in evidence.chronicle.of(What.NODE_ADDED) if moment.zone == zone]
        return f"{', '.join(added)} was added" if added else ""

    return Promise(f"no node is added in zone {zone}", missing)


def nothing_is_killed() -> Promise:
    """When an instance is taken, no pod is on its node any more."""

    def missing(evidence: Evidence) -> str:
        lost = [moment for moment in evidence.chronicle.of(What.NODE_GONE) if moment.words]
        return f"{lost[0].who} went with {lost[0].words} on it" if lost else ""

    return Promise("no pod is on an instance when it is taken", missing)


def at_most_one_away(app: str) -> Promise:
    """The budget of the workload holds at every moment."""

    def missing(evidence: Evidence) -> str:
        worst = most_away(evidence.chronicle, f"{app}-")
        return f"{worst} were away together" if worst > 1 else ""

    return Promise(f"never more than one {app} pod is away", missing)
