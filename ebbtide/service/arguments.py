"""Flags that all programs share, and what they mean for the process."""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from ebbtide.config import Loaded, Settings, load
from ebbtide.kube.access import Access, discover
from ebbtide.service import log
from ebbtide.service.listening import ListenError

_log = structlog.stdlib.get_logger(__name__)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Adds `--config`, `--kubeconfig`, `--context`, `--log-level` and `--log-format`."""
    parser.add_argument("--config", type=Path, metavar="PATH", help="configuration file (env EBBTIDE_CONFIG)")
    add_cluster(parser)
    parser.add_argument("--log-level", choices=log.LEVELS, default="info", help="least severe level that is logged")
    parser.add_argument(
        "--log-format", choices=log.FORMATS, help="default: console on a terminal, json for anything else"
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Adds `--kubeconfig` and `--context`."""
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="PATH",
        help="kubeconfig (env KUBECONFIG); else the pod's own account, else ~/.kube/config",
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig, default its current one")


@dataclass(frozen=True, slots=True)
class Common:
    """The shared flags as given."""

    config: Path | None
    kubeconfig: Path | None
    context: str | None
    log_level: log.Level
    log_format: log.Format | None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        return cls(
            config=arguments.config,
            kubeconfig=arguments.kubeconfig,
            context=arguments.context,
            log_level=arguments.log_level,
            log_format=arguments.log_format,
        )

    def configure_logs(self) -> None:
        log.configure(self.log_level, self.log_format)

    def settings(self, environ: Mapping[str, str] = os.environ) -> Settings:
        """As `load`, without the origins."""
        return self.load(environ).settings

    @contextmanager
    def configured(self) -> Iterator[Settings]:
        """The settings; where the block cannot listen as they say, the ListenError says where that was set, too."""
        loaded = self.load()
        try:
            yield loaded.settings
        except ListenError as error:
            raise error.set_by(str(loaded.origins.get(error.key, ""))) from error

    def load(self, environ: Mapping[str, str] = os.environ) -> Loaded:
        """The configuration of the file named by flag or environment; warnings are logged. Raises UsageError."""
        named = self.config or (Path(environ["EBBTIDE_CONFIG"]) if environ.get("EBBTIDE_CONFIG") else None)
        loaded = load(named, environ)
        for warning in loaded.warnings:
            _log.warning("configuration", problem=str(warning))
        return loaded

    async def access(self, environ: Mapping[str, str] = os.environ) -> Access:
        """The cluster that flags and environment point at. Raises UsageError, ClusterAccessError."""
        return await discover(self.kubeconfig, self.context, environ)
