"""Every key there is: its path, what it may be, its default, and the environment variable that overrides it.

Walks the annotations of `Settings` once; loading, reports, `config show` and the reference page all read from here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final, Literal, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from ebbtide.config.kinds import Kind, Section
from ebbtide.config.settings import Settings

VARIABLE_PREFIX: Final = "EBBTIDE__"

_WORDS: Final[Mapping[object, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
}


@dataclass(frozen=True)
class Leaf:
    """A key that holds a value: `path` in kebab case, `attribute` for the way through `Settings`."""

    path: tuple[str, ...]
    attribute: str
    field: FieldInfo

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Name of the environment variable that overrides it."""
        return VARIABLE_PREFIX + "__".join(self.path).replace("-", "_").upper()

    @property
    def allowed(self) -> str:
        return allowed(self.field)

    @property
    def default(self) -> Any:
        """The default as it may be written in the file."""
        return self.plain(self.field.default)

    def value(self, settings: Settings) -> Any:
        return attrgetter(self.attribute)(settings)

    def plain(self, value: Any) -> Any:
        """A value as it may be written in the file."""
        return _show(self.field)(value)


@cache
def leaves() -> Mapping[str, Leaf]:
    """All leaves by key, in the order of the file."""
    return {leaf.key: leaf for leaf in _walk(Settings, (), ())}


@cache
def sections() -> Mapping[str, type[Section]]:
    """The model of each table by its dotted name; "" is the top of the file."""
    return dict(_sections(Settings, ()))


def _walk(model: type[Section], path: tuple[str, ...], attributes: tuple[str, ...]) -> Iterator[Leaf]:
    for name, field in model.model_fields.items():
        here, there = (*path, key_of(name)), (*attributes, name)
        section = section_of(field)
        if section is None:
            yield Leaf(here, ".".join(there), field)
        else:
            yield from _walk(section, here, there)


def _sections(model: type[Section], path: tuple[str, ...]) -> Iterator[tuple[str, type[Section]]]:
    yield ".".join(path), model
    for name, field in model.model_fields.items():
        if section := section_of(field):
            yield from _sections(section, (*path, key_of(name)))


def key_of(attribute: str) -> str:
    """The key in the file for a field of a section."""
    return attribute.replace("_", "-")


def section_of(field: FieldInfo) -> type[Section] | None:
    """The model when the field is a table, None when it is a value."""
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def row_of(field: FieldInfo) -> type[Section] | None:
    """The model of each row when the field is a list of tables."""
    element = _element(field)
    return element if isinstance(element, type) and issubclass(element, Section) else None


def _element(field: FieldInfo) -> Any:
    return next(iter(get_args(field.annotation)), None)


def field_at(location: Sequence[str | int]) -> FieldInfo:
    """The field for a place in the file, list indexes included."""
    model: type[Section] = Settings
    field = FieldInfo(annotation=Settings)
    for step in location:
        field = keys_of(model)[step] if isinstance(step, str) else FieldInfo.from_annotation(_element(field))
        model = section_of(field) or model
    return field


@cache
def keys_of(model: type[Section]) -> Mapping[str, FieldInfo]:
    """The fields of a table by key."""
    return {key_of(name): field for name, field in model.model_fields.items()}


def allowed(field: FieldInfo) -> str:
    """What a value of this field must be, in words that follow "must be"."""
    return ", ".join((_form(field), *_bounds(field)))


def brief(field: FieldInfo) -> str:
    """The same for readers who know what a duration, a size and a label key are."""
    kind = kind_of(field)
    return ", ".join(((kind.brief if kind else "") or _form(field), *_bounds(field)))


def _bounds(field: FieldInfo) -> list[str]:
    return [words for item in field.metadata if (words := _bound(item, _show(field)))]


def _form(field: FieldInfo) -> str:
    kind = kind_of(field)
    if kind is not None:
        return kind.words
    if section_of(field) is not None:
        return "a table"
    if get_origin(field.annotation) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(field.annotation))
    scalars = get_args(field.annotation) or (field.annotation,)
    return _WORDS[scalars[0]]


def _bound(item: object, show: Callable[[Any], Any]) -> str:
    match item:
        case annotated_types.Gt(gt=bound):
            return f"more than {show(bound)}"
        case annotated_types.Ge(ge=bound):
            return f"at least {show(bound)}"
        case annotated_types.Le(le=bound):
            return f"at most {show(bound)}"
        case annotated_types.Lt(lt=bound):
            return f"less than {show(bound)}"
        case annotated_types.MaxLen(max_length=length):
            return f"at most {length} characters"
        case annotated_types.MultipleOf():
            return "without a fraction"
    return ""


def kind_of(field: FieldInfo) -> Kind | None:
    """How a value of the field is read; None where its type says it."""
    return next((item for item in field.metadata if isinstance(item, Kind)), None)


def _show(field: FieldInfo) -> Callable[[Any], Any]:
    kind = kind_of(field)
    if kind is not None:
        return kind.show
    return lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
