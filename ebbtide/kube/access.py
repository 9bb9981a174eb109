"""Where the API server is, and how to prove who we are.

An `Access` is all that a client knows of its server, so that a cluster in memory is reached in the same way as one
behind a kubeconfig or the one that this process runs in.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from ebbtide.errors import ClusterAccessError
from ebbtide.kube import tls
from ebbtide.kube.login import KubeconfigLogin, ServiceAccountLogin

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def _nothing_to_forget() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach one API server.

    `server` is a URL without a trailing slash. `connector` makes a new connection pool, reading certificates anew.
    `headers` gives the credentials, refreshed when due; it raises NoCredentials. `forget` drops credentials that the
    server did not accept, so that the next `headers` and `connector` get fresh ones; `renewal` is what people can do
    about that. `namespace` is that of the context or service account, empty when unknown; `identity` names the source
    in messages. `proxy` is a URL; `server_name` is what the server's certificate must say when that is not the host of
    `server`.
    """

    server: str
    connector: Callable[[], aiohttp.BaseConnector]
    headers: Callable[[], Awaitable[Mapping[str, str]]]
    namespace: str
    identity: str
    forget: Callable[[], None] = _nothing_to_forget
    proxy: str = ""
    server_name: str = ""
    renewal: str = "log in anew, or use other credentials"

    def refusal(self, message: str) -> str:
        """What to say when the server answers with 401; `message` is what it said itself, mostly nothing new."""
        said = "" if message in ("", "Unauthorized") else f"{message}; "
        return f"{self.server} does not accept the credentials of {self.identity} (401): {said}{self.renewal}"


def from_url(server: str, *, token: str = "", ca_file: str | Path | None = None) -> Access:
    """Access with a fixed token, or none."""

    async def headers() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {token}"} if token else {}

    trust = tls.Trust(ca_file=str(ca_file) if ca_file else None)
    secure = server.startswith("https:")
    return Access(
        server=server.rstrip("/"),
        connector=trust.connector if secure else tls.plain_connector,
        headers=headers,
        namespace="",
        identity=server,
    )


async def from_kubeconfig(path: Path | Sequence[Path] | None, context: str | None) -> Access:
    """Access as a context of a kubeconfig says (of several merged files, `~/.kube/config` for None).

    Raises UsageError for files or a context that cannot be used, ClusterAccessError when its credentials (an exec
    plugin, say) cannot be had.
    """
    paths = [Path.home() / ".kube/config"] if path is None else [path] if isinstance(path, Path) else list(path)
    login = KubeconfigLogin(paths, context)
    await login.start()
    return Access(
        server=login.server,
        connector=login.connector,
        headers=login.headers,
        namespace=login.namespace,
        identity=login.identity,
        forget=login.forget,
        proxy=login.proxy or _proxy_of_environment(login.server),
        server_name=login.server_name,
        renewal="log in anew, or name another kubeconfig or context by --kubeconfig or --context",
    )


def in_cluster(directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> Access:
    """Access as the service account of the pod that this process runs in.

    Raises ClusterAccessError outside a pod.
    """
    login = ServiceAccountLogin(directory, environ)
    return Access(
        server=login.server,
        connector=login.connector,
        headers=login.headers,
        namespace=login.namespace,
        identity="in-cluster service account",
        forget=login.forget,
        renewal="its token has ended, or its account is no more; a new pod has a new one",
        proxy=_proxy_of_environment(login.server),
    )


async def discover(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str]) -> Access:
    """The flag's kubeconfig, else that of `KUBECONFIG` (several, as kubectl has it), else the pod's, else the user's.

    A context says that a kubeconfig is meant, also inside a pod. Raises UsageError and ClusterAccessError.
    """
    if kubeconfig is not None:
        return await from_kubeconfig(kubeconfig, context)
    if listed := [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]:
        return await from_kubeconfig(listed, context)
    if not context and environ.get("KUBERNETES_SERVICE_HOST") and SERVICE_ACCOUNT.is_dir():
        return in_cluster(environ=environ)
    default = Path(environ.get("HOME") or Path.home()) / ".kube/config"
    if not default.exists():
        raise ClusterAccessError(f"no cluster: give --kubeconfig or set KUBECONFIG ({default} does not exist)")
    return await from_kubeconfig(default, context)


def _proxy_of_environment(server: str) -> str:
    """`HTTPS_PROXY` and `NO_PROXY` as Go reads them: never for this machine itself."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if _is_this_machine(host) or proxy_bypass(host):
        return ""
    return getproxies().get(parts.scheme, "")


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
