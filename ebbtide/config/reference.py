"""The reference page of all settings, made from their own descriptions so that the two cannot differ."""

from collections.abc import Iterator
from itertools import groupby

from ebbtide.config.kinds import Section
from ebbtide.config.rules import ADVICE, RULES, Rule
from ebbtide.config.scaler import Tier
from ebbtide.config.schema import Leaf, brief, key_of, leaves, sections
from ebbtide.config.show import toml_value

_INTRODUCTION = """\
# Configuration

*Generated from `ebbtide/config`; `make docs` writes it anew.*

One TOML file, named by `--config` or `$EBBTIDE_CONFIG`; without one every key has its default. An unknown key is an
error. All problems are reported together. `ebbtide config check FILE` looks for them without starting anything,
`ebbtide config show` prints every value with where it came from.

Durations are numbers of seconds or strings such as `"500ms"`, `"90s"`, `"5m"`, `"1h30m"`. Sizes are numbers of bytes or
strings such as `"64KB"`, `"2GB"`; they are binary: `1GB` is 2^30 bytes, the same as `1GiB`. Label and taint keys are
`name` or `example.com/name`, the name of at most 63 characters.

Every key can be overridden by an environment variable: `EBBTIDE__`, the tables and the key in capitals with dashes
as underscores, joined by two underscores. `EBBTIDE__NODE_REBALANCE__HOLD_DOWN=5m` overrides `hold-down` in
`[node-rebalance]`, `EBBTIDE__NAMESPACE` the key `namespace`. Lists are written as in TOML or JSON, or as words with
commas between them. A variable that names no key is an error.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for path, group in groupby(leaves().values(), key=lambda leaf: leaf.path[:-1]):
        name = ".".join(path)
        yield f"## `[{name}]`\n" if path else "## Top level\n"
        if path:
            yield f"{_joined(sections()[name].__doc__)}\n"
        yield from _table(list(group))
    yield from _tier(Tier)
    yield "## What must hold between keys\n"
    yield from _rules(RULES, "must")
    yield "Only a warning:\n"
    yield from _rules(ADVICE, "should")


def _table(group: list[Leaf]) -> Iterator[str]:
    yield "| key | default | must be | meaning |"
    yield "|---|---|---|---|"
    for leaf in group:
        cells = (
            f"`{leaf.path[-1]}`",
            f"`{toml_value(leaf.default)}`",
            brief(leaf.field),
            _joined(leaf.field.description),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _tier(tier: type[Section]) -> Iterator[str]:
    yield "## `[[worker-scaler.sts-configs]]`\n"
    yield f"{_joined(tier.__doc__)}\n"
    yield "| key | must be | meaning |"
    yield "|---|---|---|"
    for name, field in tier.model_fields.items():
        yield f"| `{key_of(name)}` | {brief(field)} | {_joined(field.description)} |"
    yield ""


def _rules(rules: tuple[Rule, ...], verb: str) -> Iterator[str]:
    for rule in rules:
        yield f"- `{rule.keys[0]}` {verb} {rule.wants}"
    yield ""


def _joined(text: str | None) -> str:
    return " ".join((text or "").split())
