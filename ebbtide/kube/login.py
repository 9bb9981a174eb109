"""Credentials that change while the process runs.

kubernetes-asyncio knows the kinds (token, token file, client certificate, exec plugin, OIDC, service account) and how
each is refreshed; here is when that happens, and what a failure means.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog

from ebbtide.connecting import words_of
from ebbtide.errors import ClusterAccessError, UsageError
from ebbtide.kube import kubeconfig
from ebbtide.kube._kubernetes_asyncio import (
    ConfigException,
    Configuration,
    InClusterConfigLoader,
    KubeConfigLoader,
    KubeConfigMerger,
)
from ebbtide.kube.bearer import authorization
from ebbtide.kube.errors import NoCredentials
from ebbtide.kube.tls import Trust, plain_connector

# How often expiry is looked at and token files are read again, as in client-go (transport/token_source.go).
LOOK_AGAIN_SECONDS: Final = 60.0
# A plugin that asks a person can take a while; one that hangs must not stop every request for ever.
_LOGIN_SECONDS: Final = 60.0
_AFTER_FAILURE_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


class KubeconfigLogin:
    """The user of one context. `start` first; then the attributes are those of the latest login.

    Every `look_again` seconds it is seen whether the credentials are about to end.
    """

    def __init__(self, paths: Sequence[Path], context: str | None, look_again: float = LOOK_AGAIN_SECONDS) -> None:
        self._paths = paths
        self._look_again = look_again
        self._context = context
        self._lock = asyncio.Lock()
        self._loader: Any = None
        self._user: Mapping[str, Any] = {}
        self._configuration: Any = None
        self._forgotten = False
        self._failure: NoCredentials | None = None
        self._due = 0.0

    async def start(self) -> None:
        """Raises UsageError or ClusterAccessError."""
        self._read()
        try:
            await self._login()
        except NoCredentials as error:
            raise ClusterAccessError(str(error)) from error
        try:
            self._trust().context()
        except OSError as error:
            raise UsageError(f"{self.identity}: its certificates cannot be used: {error}") from error

    @property
    def server(self) -> str:
        return str(self._configuration.host)

    def connector(self) -> aiohttp.BaseConnector:
        """A connection pool with the certificates of the latest login."""
        return self._trust().connector() if self.server.startswith("https:") else plain_connector()

    @property
    def proxy(self) -> str:
        return str(self._configuration.proxy or "")

    @property
    def server_name(self) -> str:
        return str(self._configuration.tls_server_name or "")

    @property
    def namespace(self) -> str:
        return str(self._loader.current_context["context"].get("namespace") or "")

    @property
    def identity(self) -> str:
        return f"context {self._loader.current_context['name']} in {os.pathsep.join(map(str, self._paths))}"

    async def headers(self) -> Mapping[str, str]:
        """Raises NoCredentials."""
        async with self._lock:
            if asyncio.get_running_loop().time() >= self._due:
                await self._refresh()
            if self._failure is not None:
                raise NoCredentials(str(self._failure))
        return authorization(str(self._configuration.api_key.get("BearerToken") or ""), self.identity)

    def forget(self) -> None:
        """The next `headers` reads the files and asks plugins anew; for a while not, if that has just failed."""
        self._forgotten = True
        if self._failure is None:
            self._due = 0.0

    def _trust(self) -> Trust:
        found = self._configuration
        return Trust(found.ssl_ca_cert, found.cert_file, found.key_file, bool(found.verify_ssl))

    async def _refresh(self) -> None:
        forgotten, self._forgotten, self._failure = self._forgotten, False, None
        try:
            if forgotten:
                self._read()
            await self._login()
        except (UsageError, NoCredentials) as error:
            self._due = asyncio.get_running_loop().time() + _AFTER_FAILURE_SECONDS
            _log.warning("credentials not refreshed", error=str(error))
            if forgotten:
                # Otherwise the old ones, which are renewed well before they end, may still be accepted.
                self._forgotten, self._failure = True, NoCredentials(str(error))

    def _read(self) -> None:
        for path in self._paths:
            if not path.expanduser().is_file() and len(self._paths) == 1:
                raise UsageError(f"kubeconfig {path}: no such file")
        kubeconfig.check(self._paths, self._context)
        try:
            merger = KubeConfigMerger(os.pathsep.join(map(str, self._paths)))
            self._loader = KubeConfigLoader(
                merger.config,
                active_context=self._context or None,
                config_base_path=None,
                config_persister=lambda _: _save(merger),
            )
            self._user = _user_of(merger, self._loader)
        # The library reads these files as they come: it raises whatever a misplaced value makes it stumble over.
        except Exception as error:
            raise UsageError(f"kubeconfig {os.pathsep.join(map(str, self._paths))}: {words_of(error)}") from error

    async def _login(self) -> None:
        configuration = Configuration()
        try:
            async with asyncio.timeout(_LOGIN_SECONDS):
                await self._loader.load_and_set(configuration)
        # Plugins and identity providers fail in every way there is, and the library adds some of its own.
        except Exception as error:
            raise NoCredentials(f"{self.identity}: {words_of(error)}") from error
        authorization(str(configuration.api_key.get("BearerToken") or ""), self.identity)
        self._configuration = configuration
        self._due = asyncio.get_running_loop().time() + self._good_for()

    def _good_for(self) -> float:
        """Seconds. A plugin's answer without an expiry stands until it is not accepted."""
        without_expiry = "exec" in self._user and getattr(self._loader, "exec_plugin_expiry", None) is None
        return float("inf") if without_expiry else self._look_again


class ServiceAccountLogin:
    """The service account of this pod; its token is replaced on disk by the kubelet about once an hour.

    Raises ClusterAccessError outside a pod.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self._directory = directory
        self._loader = InClusterConfigLoader(str(directory / "token"), str(directory / "ca.crt"), environ=environ)
        self._configuration = Configuration()
        self._forgotten = False
        try:
            self._loader.load_and_set(self._configuration)
        except (ConfigException, OSError) as error:
            raise ClusterAccessError(f"in-cluster service account: {error}") from error

    @property
    def server(self) -> str:
        return str(self._configuration.host)

    def connector(self) -> aiohttp.BaseConnector:
        """A connection pool that trusts the authority on disk."""
        return Trust(ca_file=self._configuration.ssl_ca_cert).connector()

    @property
    def namespace(self) -> str:
        try:
            return (self._directory / "namespace").read_text().strip()
        except OSError:
            return ""

    async def headers(self) -> Mapping[str, str]:
        """Raises NoCredentials."""
        try:
            if self._forgotten:
                self._loader.load_and_set(self._configuration)
                self._forgotten = False
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            raise NoCredentials(f"in-cluster service account: {error}") from error
        return authorization(str(token), "in-cluster service account")

    def forget(self) -> None:
        """The next `headers` reads the token file, which otherwise happens once a minute."""
        self._forgotten = True


def _user_of(merger: Any, loader: Any) -> Mapping[str, Any]:
    """The user entry of the chosen context. The library needs one for every https cluster, if only an empty one."""
    name = loader.current_context["context"].get("user")
    for entry in merger.config.value["users"]:
        if entry["name"] == name:
            return entry.value.get("user") or {}
    raise UsageError(f"context {loader.current_context['name']} names no user of this file")


def _save(merger: Any) -> None:
    """Keeps a refreshed OIDC token as kubectl does: the identity provider may accept a refresh token only once."""
    try:
        merger.save_changes()
    except OSError as error:
        _log.warning("refreshed token not saved", error=str(error))
