"""Workers, the shared pool and tasks of the state, for people."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from ebbtide.cli.asking import duration, plain
from ebbtide.cli.tables import table
from ebbtide.counting import count

Raw = dict[str, Any]

_STYLES: Final = {
    "starting": "yellow",
    "ready": "green",
    "usable": "green",
    "busy": "cyan",
    "unknown": "bold red",
    "node-lost": "bold red",
    "ending": "yellow",
}
# A thousand workers are no table; the JSON form has all of them.
_MOST: Final = 20
_TASK_STATES: Final = ("waiting", "running", "ended")


def workers(found: Raw | None, width: int) -> Iterator[RenderableType]:
    """Nothing for a worker scaler that is switched off."""
    if not found or not found["run"]:
        return
    yield Text()
    if not found["known"]:
        yield plain("workers: only the leader knows them", "yellow")
        return
    yield plain(f"workers: {_summary(found)}", "bold")
    if found["unread"]:
        yield plain(f"note: no task can be told from an unknown one yet: {found['unread']}", "yellow")
    if found["dedicated"]:
        yield Text()
        yield from _dedicated(found["dedicated"], width)
    if found["shared"] and (found["shared"]["replicas"] or found["shared"]["conditions"]):
        yield Text()
        yield from _shared(found["shared"], width)


def of_task(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is known of one load-data task, as labelled sentences; nothing for facts about anything else."""
    task, place, worker, would = (facts.get(key) for key in ("task", "place", "worker", "would"))
    if task:
        cluster = "" if task["cluster"] is None else f", of cluster {task['cluster']}"
        yield "data size", f"{_gib(task['dataSize'] or 0)}{cluster}"
    if place:
        yield "place", f"{place['pool']}, pod {place['worker'] or 'none yet'}"
    if worker and worker["trouble"]:
        yield "trouble", worker["trouble"]
    if facts.get("reported"):
        told = (f"{key} {value}" for key, value in facts["reported"].items() if value)
        yield "reported", ", ".join(told) or "running, without progress yet"
    if would and would.get("size"):
        size, limits = would["size"], would["size"]["limits"]
        disks = f"{count(size['workers'], 'worker')} with {size['storageGb']} GiB each"
        yield "its worker", f"{limits['cpu']} cores and {limits['memory']} at most, {disks}"


def _summary(found: Raw) -> str:
    parts = [f"{len(found['dedicated'])} dedicated"]
    if found["shared"]:
        pool = found["shared"]
        parts.append(f"shared pool of {pool['replicas']} ({pool['usable']} usable, {pool['desired']} wanted)")
    states = Counter(task["state"] for task in found["tasks"])
    tasks = ", ".join(f"{states[state]} {state}" for state in _TASK_STATES if states[state])
    return f"{', '.join(parts)}; tasks: {tasks or 'none'}"


def _dedicated(listed: list[Raw], width: int) -> Iterator[RenderableType]:
    rows = []
    order = sorted(listed, key=lambda each: (not each["trouble"], each["state"] in ("busy", "idle"), each["name"]))
    for each in order[:_MOST]:
        why = f"{each['trouble']}: {each['reason']}" if each["trouble"] else each["reason"]
        rows.append([plain(each["name"]), _state(each["state"]), plain(_gib(each["dataSize"])), plain(why)])
    yield table(("WORKER", "STATE", "DATA", "WHY"), rows, width, keys=2, folded=("WORKER", "WHY"))
    if len(order) > _MOST:
        yield plain(f"… and {len(order) - _MOST} more; --output json has all of them")


def _shared(pool: Raw, width: int) -> Iterator[RenderableType]:
    if pool["paused"]:
        yield plain("the pool is paused by annotation: nothing is scaled", "bold yellow")
    for condition in pool["conditions"]:
        yield plain(f"{condition['reason']}: {condition['note']}", "yellow")
    if not pool["pods"]:
        return
    rows = []
    for pod in pool["pods"]:
        idle = "-" if pod["idleSeconds"] is None else duration(pod["idleSeconds"])
        figures = (plain(pod[key] or "-") for key in ("running", "ended", "reserved"))
        rows.append([plain(pod["ordinal"]), _state(pod["state"]), *figures, plain(idle)])
    yield table(("POD", "STATE", "RUNNING", "ENDED", "PROMISED", "IDLE"), rows, width, keys=2, folded=())


def _state(state: str) -> Text:
    return plain(state, _STYLES.get(state, ""))


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size else "-"
