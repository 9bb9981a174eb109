"""The API server as a pod sees it, for a few requests an hour: without aiohttp and without kubernetes-asyncio.

Every other program has `ebbtide.kube.client`. This one has its one method `request`, with the same meaning, and takes a
tenth of the memory: `ebbtide agent` runs on every node. Token and authority are read from their files for each request,
since the kubelet replaces both while the pod runs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol, Self
from urllib.request import getproxies, proxy_bypass

import orjson

from ebbtide.http1 import HttpError, Request, exchange
from ebbtide.kube.answers import Answer
from ebbtide.kube.bearer import authorization
from ebbtide.kube.errors import NoCredentials, Unreachable
from ebbtide.kube.trust import server_trust

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# A Node object of many images has some 20 KB.
_LARGEST_BODY: Final = 4 << 20
# Below what admission webhooks may take (30 s), above what a busy server takes: the request is repeated anyway.
_WITHIN: Final = 15.0


class Cluster(Protocol):
    """An API server, as little of it as the agent needs; `ebbtide.kube.client.Client` is one, too."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Whatever the server answers. Raises KubeError when there is no answer."""
        ...


class SlimClient:
    """Speaks as the service account of this pod, as an async context manager."""

    def __init__(self, server: str, directory: Path, user_agent: str) -> None:
        self._server = server
        self._directory = directory
        self._user_agent = user_agent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is nothing to close: no connection outlives its request."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Whatever the server answers: a failing status is returned, not raised. Raises Unreachable, NoCredentials."""
        what = f"{method} {path}"
        request = self._request(method, path, params or {}, b"" if body is None else orjson.dumps(body), content_type)
        try:
            response = await exchange(request, within=_WITHIN, largest=_LARGEST_BODY)
        except HttpError as error:
            raise Unreachable(what, str(error)) from error
        return Answer(response.status, response.headers, response.body)

    def _request(self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str) -> Request:
        try:
            token = (self._directory / "token").read_text().strip()
            context = server_trust(str(self._directory / "ca.crt"))
        except OSError as error:
            raise NoCredentials(f"in-cluster service account: {error}") from error
        headers = {
            "Accept": "application/json",
            **authorization(f"Bearer {token}", "in-cluster service account"),
            "Content-Type": content_type,
            "User-Agent": self._user_agent,
        }
        return Request(method, self._server + path, headers, params, body, context)


def server_of_pod(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> str:
    """The URL of the API server for a pod; "" outside of one, and where a proxy is to be used on the way."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not directory.is_dir():
        return ""
    if getproxies().get("https") and not proxy_bypass(host):
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
