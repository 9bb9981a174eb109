"""Kinds of values: how each is read, what is allowed in words, how it is shown.

A kind stands in the annotation of a setting. The words serve the problem report and the reference page alike, so that
the two cannot disagree. Bounds beside it (`Field(gt=0)`) are put into words by `ebbtide.config.schema`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ebbtide.config import names, units


class Section(
    BaseModel,
    frozen=True,
    strict=True,
    extra="forbid",
    alias_generator=lambda name: name.replace("_", "-"),
    populate_by_name=True,
    use_attribute_docstrings=True,
    allow_inf_nan=False,
):
    """A table of the configuration: kebab-case keys outside, attributes inside, frozen, no silent conversions."""


@dataclass(frozen=True)
class Kind:
    """`words` completes "must be …"; `parse` raises ValueError; `show` gives back what may be written in the file;
    `brief` stands for the words where their meaning is told once for a whole page. `pattern` is a regular
    expression for those who check texts without `parse`: a whole text matches it; "" where there is none. `unless` is
    found in texts which are too much all the same: too long, or more than `most`. That is set for measures, numbers
    from 0 to it; as texts they have a unit and are never empty, which their pattern does not say.
    """

    words: str
    parse: Callable[[Any], Any]
    show: Callable[[Any], Any] = lambda value: value
    brief: str = ""
    pattern: str = ""
    most: float | None = None
    unless: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.parse, handler(source))


def _text(accepts: Callable[[str], bool]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or not accepts(value):
            raise ValueError("not of this form")
        return value

    return parse


def _optional(accepts: Callable[[str], bool]) -> Callable[[Any], str]:
    return _text(lambda text: not text or accepts(text))


def _host_port(value: Any) -> names.HostPort:
    return value if isinstance(value, names.HostPort) else names.HostPort.parse(_text(bool)(value))


def _tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("not a list")
    return tuple(value)


_DURATION_WORDS = 'a duration: a number of seconds, or a string such as "500ms", "90s", "5m", "1h30m"'
Seconds = Annotated[
    float,
    Kind(
        _DURATION_WORDS,
        units.parse_duration,
        units.format_duration,
        "duration",
        units.DURATION,
        units.LONGEST,
        units.TOO_LONG,
    ),
]
PositiveSeconds = Annotated[Seconds, Field(gt=0)]
# For keys whose name already says seconds: shown as bare numbers.
PlainSeconds = Annotated[
    float,
    Kind(
        _DURATION_WORDS,
        units.parse_duration,
        units.format_seconds,
        "duration",
        units.DURATION,
        units.LONGEST,
        units.TOO_LONG,
    ),
]

Size = Annotated[
    int,
    Kind(
        'a size: a whole number of bytes, or a string such as "64KB", "2GB", "1TB"',
        units.parse_size,
        units.format_size,
        pattern=units.SIZE,
        most=units.LARGEST,
        unless=units.TOO_LARGE,
    ),
]
Count = Annotated[int, Field(ge=0)]
PositiveCount = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
OptionalPort = Annotated[int, Field(ge=0, le=65535)]
Unsigned64 = Annotated[int, Field(ge=0, lt=2**64)]

Namespace = Annotated[
    str, Kind("a namespace: at most 63 of a-z, 0-9 and '-'", _text(names.is_dns_label), pattern=names.DNS_LABEL)
]
OptionalNamespace = Annotated[
    str,
    Kind(
        "\"\" or a namespace: at most 63 of a-z, 0-9 and '-'",
        _optional(names.is_dns_label),
        pattern=f"(?:{names.DNS_LABEL})?",
    ),
]
ObjectName = Annotated[
    str,
    Kind(
        "an object's name: at most 253 of a-z, 0-9, '-' and '.'",
        _text(names.is_dns_name),
        pattern=names.DNS_NAME,
        unless=names.LONG_NAME,
    ),
]
ServiceName = Annotated[
    str,
    Kind(
        "a Service's name: at most 63 of a-z, 0-9 and '-', beginning with a letter",
        _text(names.is_service_name),
        pattern=names.SERVICE_NAME,
    ),
]
DomainName = Annotated[
    str,
    Kind('a domain such as "cluster.local"', _text(names.is_dns_name), pattern=names.DNS_NAME, unless=names.LONG_NAME),
]
LabelKey = Annotated[
    str,
    Kind(
        'a label or taint key such as "name" or "example.com/name" (name: at most 63 characters)',
        _text(names.is_label_key),
        brief="label or taint key",
        pattern=names.LABEL_KEY,
        unless=names.LONG_PREFIX,
    ),
]
OptionalLabelKey = Annotated[
    str,
    Kind(
        '"" or a label key such as "name" or "example.com/name"',
        _optional(names.is_label_key),
        pattern=f"(?:{names.LABEL_KEY})?",
        unless=names.LONG_PREFIX,
    ),
]
LabelValue = Annotated[
    str,
    Kind(
        "a label's value: at most 63 of letters, digits, '-', '_' and '.', or empty",
        _text(names.is_label_value),
        pattern=names.LABEL_VALUE,
    ),
]
Selector = Annotated[
    str, Kind('a label selector such as "key=value" or "key=value,!other"', _text(names.is_label_selector))
]
Listen = Annotated[
    names.HostPort,
    Kind('host:port to listen on, such as "0.0.0.0:8080", "127.0.0.1:0" or "[::]:8080"', _host_port, str),
]
HttpUrl = Annotated[
    str,
    Kind(
        'a URL such as "http://host:port"', _text(names.is_http_url), pattern=names.HTTP_URL, unless=names.LONG_URL_HOST
    ),
]
OptionalHttpUrl = Annotated[
    str,
    Kind(
        '"" or a URL such as "http://host:port"',
        _optional(names.is_http_url),
        pattern=f"(?:{names.HTTP_URL})?",
        unless=names.LONG_URL_HOST,
    ),
]
OptionalRegion = Annotated[
    str,
    Kind('"" or a region such as "eu-central-1"', _optional(names.is_aws_region), pattern=f"(?:{names.AWS_REGION})?"),
]
Directory = Annotated[
    str,
    Kind('an absolute path such as "/etc/ebbtide/tls"', _text(lambda path: path.startswith("/") and "\0" not in path)),
]

_CertificateName = Annotated[
    str,
    Kind(
        "a DNS name or an IP address",
        _text(names.is_certificate_name),
        pattern=names.CERTIFICATE_NAME,
        unless=names.LONG_HOST,
    ),
]
CertificateNames = Annotated[
    tuple[_CertificateName, ...], Kind('a list of DNS names (perhaps "*.…") and IP addresses', _tuple, list)
]
_Pattern = Annotated[str, Kind("a shell-style pattern", _text(bool))]
Patterns = Annotated[
    tuple[_Pattern, ...],
    Kind('a list of at least one shell-style pattern, such as ["*"] or ["prod-*"]', _tuple, list),
    Field(min_length=1),
]


def table_list(words: str) -> Kind:
    """A list of tables (`[[…]]`), kept as a tuple."""
    return Kind(words, _tuple, lambda rows: [row.model_dump(by_alias=True, exclude_defaults=True) for row in rows])
