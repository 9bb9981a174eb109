"""What a request at the front asks for, or what is wrong with it. Pure: nothing is looked up, nothing is made.

Everything is in method and query. A parameter that is known must be there once and make sense, or the request is bad,
with a text that names it; the one exception is `data_size`, which counts as 0 where it is no number. Unknown parameters
are let pass: clients have more of them than a front needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final
from urllib.parse import unquote_plus

from reconciler.scaler.contract import Arrival
from reconciler.scaler.task import TaskId, TaskPrefix

PATH: Final = "/load_data"
_METHODS: Final = "DELETE, GET, POST, PUT"
_MOST_64: Final = 2**64 - 1
_DIGITS_64: Final = 20
# Those that requests at workers carry. Whoever has one of them is not at a front by intention.
_OF_WORKERS: Final = frozenset(("writer_id", "chunk_id", "flush", "build"))
_KNOWN: Final = _OF_WORKERS | {"cluster_id", "task_id", "task_id_prefix", "start_ts", "commit_ts", "data_size"}
_LONGEST_QUOTE: Final = 80

Parameters = Mapping[str, str]


class Kind(StrEnum):
    """Kinds of requests; the values are those of the metric label `request`."""

    INIT = "init"
    STATE = "state"
    LIST = "list"
    DELETE = "delete"
    BULK_DELETE = "bulk-delete"
    DATA = "data"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Init:
    """A client begins a task, or comes again for it."""

    kind: ClassVar = Kind.INIT
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class Existence:
    """A client that was restarted asks for its task."""

    kind: ClassVar = Kind.STATE
    task: TaskId
    cluster: int


@dataclass(frozen=True, slots=True)
class Listing:
    """All tasks of a cluster."""

    kind: ClassVar = Kind.LIST
    cluster: int

    @property
    def method(self) -> str:
        return "GET"

    @property
    def query(self) -> str:
        return f"cluster_id={self.cluster}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Cancels a task."""

    kind: ClassVar = Kind.DELETE
    task: TaskId
    cluster: int

    @property
    def method(self) -> str:
        return "DELETE"

    @property
    def query(self) -> str:
        return f"cluster_id={self.cluster}&task_id={self.task}"


@dataclass(frozen=True, slots=True)
class BulkDelete:
    """Cancels all tasks whose ids begin with these segments."""

    kind: ClassVar = Kind.BULK_DELETE
    prefix: TaskPrefix
    cluster: int

    @property
    def method(self) -> str:
        return "DELETE"

    @property
    def query(self) -> str:
        return f"cluster_id={self.cluster}&task_id_prefix={self.prefix}"


@dataclass(frozen=True, slots=True)
class DataRequest:
    """A chunk, a flush or a build: a worker's affair, which no front can answer or pass on."""

    kind: ClassVar = Kind.DATA


@dataclass(frozen=True, slots=True)
class Bad:
    """`why` names the parameter, or whatever else is wrong."""

    kind: ClassVar = Kind.OTHER
    why: str


@dataclass(frozen=True, slots=True)
class Nowhere:
    """Any other path."""

    kind: ClassVar = Kind.OTHER


Asked = Nowhere | Init | Existence | Listing | Delete | BulkDelete | DataRequest | Bad
# Those that a replica which does not lead passes on; `method` and `query` are what it sends.
PassedOn = Listing | Delete | BulkDelete


@dataclass(frozen=True, slots=True)
class Rules:
    """`cluster` is the id that requests must carry, 0 for any; `max_size` in bytes is the largest data size."""

    cluster: int
    max_size: int


class _BadError(Exception):
    """The request is bad; the message is for the client."""


def read(method: str, target: str, rules: Rules) -> Asked:
    """Reads a request.

    `target` is path and query as they came, percent signs and all; or a whole URL, as proxies get it (RFC 9112 3.2.2).
    """
    path, _, query = target.partition("?")
    if "://" in path:
        path = f"/{path.partition('://')[2].partition('/')[2]}"
    if path != PATH:
        return Nowhere()
    if method == "PUT":
        return DataRequest()
    reader = _READERS.get(method)
    if reader is None:
        return Bad(f"the method {_quoted(method)} is none of {_METHODS}")
    try:
        return reader(_parameters(query), rules)
    except _BadError as error:
        return Bad(str(error))


def parameter_at(line: str) -> str:
    """The parameter in which a request line breaks off, "" where it has not come to one yet."""
    name = line.rpartition("?")[2].rpartition("&")[2].partition("=")[0] if "?" in line else ""
    return name if name in _KNOWN else ""


def _parameters(query: str) -> Parameters:
    found: dict[str, str] = {}
    for field in query.split("&"):
        name, _, value = field.partition("=")
        if "%" in field or "+" in field:
            name, value = unquote_plus(name), unquote_plus(value)
        if name in _KNOWN:
            if name in found:
                raise _BadError(f"{name} is given more than once")
            found[name] = value
    return found


def _post(parameters: Parameters, rules: Rules) -> Asked:
    if not _OF_WORKERS.isdisjoint(parameters):
        return DataRequest()
    cluster, task = _cluster(parameters, rules), _task(parameters)
    _number(parameters, "start_ts")
    _number(parameters, "commit_ts")
    return Init(Arrival(task, cluster, _size(parameters, rules)))


def _get(parameters: Parameters, rules: Rules) -> Asked:
    cluster = _cluster(parameters, rules)
    return Existence(_task(parameters), cluster) if "task_id" in parameters else Listing(cluster)


def _delete(parameters: Parameters, rules: Rules) -> Asked:
    if "task_id" in parameters and "task_id_prefix" in parameters:
        raise _BadError("task_id and task_id_prefix are both given")
    cluster = _cluster(parameters, rules)
    if "task_id_prefix" in parameters:
        return BulkDelete(_prefix(parameters["task_id_prefix"]), cluster)
    return Delete(_task(parameters), cluster)


_READERS: Final[Mapping[str, Callable[[Parameters, Rules], Asked]]] = {"POST": _post, "GET": _get, "DELETE": _delete}


def _cluster(parameters: Parameters, rules: Rules) -> int:
    if not rules.cluster:
        return _number(parameters, "cluster_id")
    if "cluster_id" not in parameters:
        raise _BadError(f"cluster id mismatch: cluster_id is missing, and has to be {rules.cluster}")
    cluster = _number(parameters, "cluster_id")
    if cluster != rules.cluster:
        raise _BadError(f"cluster id mismatch: cluster_id is {cluster}, and has to be {rules.cluster}")
    return cluster


def _task(parameters: Parameters) -> TaskId:
    text = parameters.get("task_id")
    if text is None:
        raise _BadError("task_id is missing")
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise _BadError(f"task_id {_quoted(text)}: {error}") from error


def _prefix(text: str) -> TaskPrefix:
    try:
        return TaskPrefix.parse(text)
    except ValueError as error:
        raise _BadError(f"task_id_prefix {_quoted(text)}: {error}") from error


def _number(parameters: Parameters, name: str) -> int:
    text = parameters.get(name)
    if text is None:
        raise _BadError(f"{name} is missing")
    if not _is_number(text) or len(text) > _DIGITS_64 or int(text) > _MOST_64:
        raise _BadError(f"{name} {_quoted(text)} is no whole number from 0 to {_MOST_64}")
    return int(text)


def _size(parameters: Parameters, rules: Rules) -> int:
    """In bytes; what is no number is none, but a number that 64 bits cannot hold is too large whatever the rules."""
    text = parameters.get("data_size", "")
    if not _is_number(text):
        return 0
    digits = text.lstrip("0") or "0"
    if len(digits) > _DIGITS_64 or int(digits) > _MOST_64:
        raise _BadError(
            f"data size {_shortened(digits)} exceeds max data size {rules.max_size}: data_size is above 64 bits"
        )
    return int(digits)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _quoted(text: str) -> str:
    """As it may be shown in an answer: in ASCII, without control characters, not too long."""
    return ascii(_shortened(text))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
