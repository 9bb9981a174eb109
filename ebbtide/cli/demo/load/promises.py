"""What a load promises: tables end, workers go, and nothing goes under a task."""

from ebbtide.cli.demo.chronicle import Chronicle, What
from ebbtide.cli.demo.load.scene import LoadScene
from ebbtide.cli.demo.load.tables import Step
from ebbtide.cli.demo.promises import Evidence, Promise
from ebbtide.counting import count

_NOTHING = LoadScene()

# --- that must come true ---------------------------------------------------------------------------------------------


def every_table_ends() -> Promise:
    def missing(evidence: Evidence) -> str:
        load = evidence.scene.load or _NOTHING
        open_tables = [view for view in load.tables if view.step is not Step.LOADED]
        if not load.tables:
            return "no table was begun"
        return f"{open_tables[0].table.name} is {open_tables[0].step.value}" if open_tables else ""

    return Promise("every table is loaded", missing)


def nothing_is_left() -> Promise:
    """No pod, set, Service or volume of a worker; of the pool only its empty set and its Service."""

    def missing(evidence: Evidence) -> str:
        load = evidence.scene.load or _NOTHING
        return f"{load.left[0]} is still there" if load.left else ""

    return Promise("no worker and no volume of one is left", missing)


def holds_back_busy() -> Promise:
    """The eviction of a worker's pod was refused, and it was not evicted before its table had ended."""

    def missing(evidence: Evidence) -> str:
        refused = {moment.who for moment in evidence.chronicle.of(What.REFUSED)}
        workers = {moment.node for moment in evidence.chronicle.of(What.SENT_TO)}
        return "" if refused & workers else "no eviction of a busy worker was refused"

    return Promise("busy workers in the blocked zone are not evicted", missing)


def reaches_size(pods: int) -> Promise:
    def missing(evidence: Evidence) -> str:
        most = largest(evidence.chronicle)
        return "" if most >= pods else f"it never had more than {most}"

    return Promise(f"the pool grows to {count(pods, 'pod')}", missing)


# --- that must be true all the time ----------------------------------------------------------------------------------


def none_is_cut_off() -> Promise:
    def missing(evidence: Evidence) -> str:
        lost = evidence.chronicle.of(What.CUT_OFF)
        return f"{lost[0].who} went with {lost[0].words}" if lost else ""

    return Promise("no worker goes while it has a task", missing)


def none_fails() -> Promise:
    def missing(evidence: Evidence) -> str:
        failed = evidence.chronicle.of(What.TABLE_FAILED)
        return f"{failed[0].who}: {failed[0].words}" if failed else ""

    return Promise("no client gives up", missing)


def redirects_only_first() -> Promise:
    def missing(evidence: Evidence) -> str:
        wrong = evidence.chronicle.of(What.MISDIRECTED)
        return f"{wrong[0].words} of {wrong[0].who} was redirected" if wrong else ""

    return Promise("only init and the existence check are redirected", missing)


def places_none(zone: str) -> Promise:
    """While the zone is blocked no worker is placed in it."""

    def missing(evidence: Evidence) -> str:
        blocked = False
        for moment in evidence.chronicle.of(What.ZONE, What.POD_PLACED):
            if moment.what is What.ZONE and moment.zone.endswith(f"/{zone}"):
                blocked = moment.who != "open"
            elif moment.what is What.POD_PLACED and blocked and moment.zone == zone:
                return f"{moment.who} was placed there at {moment.at:.0f} s"
        return ""

    return Promise(f"no worker is placed in zone {zone} while that is blocked", missing)


def one_place_each() -> Promise:
    """However often a client asks, it is sent to the same pod."""

    def missing(evidence: Evidence) -> str:
        places: dict[str, str] = {}
        for moment in evidence.chronicle.of(What.SENT_TO):
            if places.setdefault(moment.who, moment.node) != moment.node:
                return f"{moment.who} was sent to {places[moment.who]} and to {moment.node}"
        return ""

    return Promise("a table is always sent to the same worker", missing)


def own_workers_at_most(limit: int) -> Promise:
    def missing(evidence: Evidence) -> str:
        most = most_own(evidence.chronicle)
        return f"there were {most}" if most > limit else ""

    return Promise(f"never more than {limit} workers of their own", missing)


def pool_at_most(pods: int) -> Promise:
    def missing(evidence: Evidence) -> str:
        most = largest(evidence.chronicle)
        return f"it had {most}" if most > pods else ""

    return Promise(f"never more than {count(pods, 'pod')} in the pool", missing)


def most_own(chronicle: Chronicle) -> int:
    """How many workers of their own there were at the same time."""
    now = most = 0
    for moment in chronicle.of(What.WORKER_MADE, What.WORKER_GONE):
        now += 1 if moment.what is What.WORKER_MADE else -1
        most = max(most, now)
    return most


def largest(chronicle: Chronicle) -> int:
    """How many pods the pool asked for at most."""
    return max((int(moment.words) for moment in chronicle.of(What.POOL_SIZED)), default=0)
