"""Metrics: one registry per process, handed to whoever counts something.

No global registry: a second instance in the same interpreter (tests, `ebbtide demo`) has its own figures.
"""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

# What a source tree that was never installed calls itself.
_UNKNOWN_VERSION: Final = "0+unknown"


def product_version() -> str:
    """The version of the installed distribution."""
    try:
        return version("ebbtide")
    except PackageNotFoundError:
        return _UNKNOWN_VERSION


def new_registry(program: str) -> CollectorRegistry:
    """A registry with `ebbtide_build_info{program,version,python}` and the process's own figures in it."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    build = Gauge(
        "ebbtide_build_info",
        "Always 1; the labels say what is running.",
        ["program", "version", "python"],
        registry=registry,
    )
    build.labels(program, product_version(), platform.python_version()).set(1)
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The figures in the format that the `Accept` header prefers, and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
