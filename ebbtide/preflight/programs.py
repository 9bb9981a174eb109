"""Which program a container runs, and with which settings: command lines and environments as the kubelet has them."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, Final

Raw = Mapping[str, Any]

_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
_ENDS_OF_A_COMMAND: Final = frozenset({"|", "||", "&", "&&", ";"})
_REFERENCE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
# Go's strconv.ParseBool, with which these programs read flags and environment alike.
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


AUTOSCALER: Final = ("cluster-autoscaler", *(f"cluster-autoscaler-{arch}" for arch in ("amd64", "arm64")))
TERMINATION_HANDLER: Final = ("aws-node-termination-handler", "node-termination-handler")
OURS: Final = ("ebbtide", "kubectl-ebbtide")
_KNOWN: Final = (*AUTOSCALER, *TERMINATION_HANDLER, *OURS)


@dataclass(frozen=True, slots=True)
class Program:
    """A container of a workload.

    `workload` is `Kind namespace/name`; `replicas` is None where there is no such number. `words` is the command line
    with references filled in. `environment` has None for a value that is kept elsewhere; `more_environment` says that
    there are variables whose very names are kept elsewhere.
    """

    workload: str
    container: str
    image: str
    words: tuple[str, ...]
    environment: Mapping[str, str | None]
    more_environment: bool
    replicas: int | None

    @property
    def where(self) -> str:
        return f"{self.workload}, container {self.container}"

    @property
    def image_name(self) -> str:
        """Last part of the repository, without tag and digest: `cluster-autoscaler`."""
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]

    def is_called(self, *names: str) -> bool:
        """Whether image or executable have one of the names."""
        leading = takewhile(lambda word: not word.startswith("-") or word == "--", self.words)
        return self.image_name in names or any(PurePosixPath(word).name in names for word in leading)

    def flags(self, *switches: str) -> "Flags":
        """`switches` are the flags that take no value of their own."""
        return Flags(dict(_grouped(_flags(self.words, frozenset(switches)))))

    def setting(self, flag: str, variable: str) -> bool | None:
        """A switch that a flag sets, or else a variable; False without either, None when that is kept elsewhere."""
        given = self.flags(flag).last(flag)
        if given is None and variable in self.environment:
            given = self.environment[variable]
            if given is None:
                return None
        elif given is None and self.more_environment:
            return None
        return given in _TRUE


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags with the values that they were given, in that order. Dashes and underscores in names are the same."""

    values: Mapping[str, tuple[str, ...]]

    def all(self, name: str) -> tuple[str, ...]:
        return self.values.get(name, ())

    def last(self, name: str) -> str | None:
        """What counts of a flag that has one value, None when it was not given."""
        given = self.all(name)
        return given[-1] if given else None

    def is_on(self, name: str) -> bool:
        return self.last(name) in _TRUE


def known_programs(kind: str, raw: Raw, pod_spec: Raw, replicas: int | None) -> list[Program]:
    """The containers, of a workload whose pods have that spec, that run something which checks look at.

    Of all others nothing is kept: their environments are nobody's business.
    """
    metadata = raw["metadata"]
    workload = f"{kind} {metadata.get('namespace') or 'default'}/{metadata['name']}"
    programs = (_program(workload, container, replicas) for container in pod_spec.get("containers") or ())
    return [program for program in programs if program.is_called(*_KNOWN)]


def _program(workload: str, container: Raw, replicas: int | None) -> Program:
    environment = {
        str(entry["name"]): None if entry.get("valueFrom") else str(entry.get("value") or "")
        for entry in container.get("env") or ()
    }
    given = [*(container.get("command") or ()), *(container.get("args") or ())]
    return Program(
        workload=workload,
        container=str(container.get("name") or ""),
        image=str(container.get("image") or ""),
        words=tuple(_command([_filled_in(str(word), environment) for word in given])),
        environment=environment,
        more_environment=bool(container.get("envFrom")),
        replicas=replicas,
    )


def _filled_in(word: str, environment: Mapping[str, str | None]) -> str:
    """`$(NAME)` as the kubelet expands it; a value that is kept elsewhere leaves the reference as it stands."""
    return _REFERENCE.sub(lambda match: environment.get(match[1]) or match[0], word)


def _command(words: Sequence[str]) -> Sequence[str]:
    """The command line itself, also where a shell is given it as text: its first command with flags counts."""
    if not words or PurePosixPath(words[0]).name not in _SHELLS:
        return words
    text = next((words[at + 1] for at, word in enumerate(words[:-1]) if re.fullmatch("-[a-z]*c", word)), "")
    commands = list(_commands(text)) or [[*words]]
    return next((each for each in commands if any(word.startswith("--") for word in each)), commands[0])


def _commands(text: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(text.replace(";", " ; ").replace("\\\n", " ").replace("\n", " ; "))
    except ValueError:
        words = text.split()
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in _ENDS_OF_A_COMMAND:
            command.append(word)
        elif command:
            yield command[1:] if command[0] == "exec" else command
            command = []


def _flags(words: Sequence[str], switches: frozenset[str]) -> Iterator[tuple[str, str]]:
    """`--name=value`, `--name value`, `-name …` and bare switches; `--` ends them."""
    rest = iter(enumerate(words))
    for at, word in rest:
        if word == "--" and at:
            return
        if not re.match("--?[A-Za-z]", word):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        following = words[at + 1] if at + 1 < len(words) else ""
        if equals:
            yield name, value
        elif name in switches or not following or following.startswith("-"):
            yield name, "true"
        else:
            next(rest)
            yield name, following


def _grouped(pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    yield from found.items()
