"""Starts and stops a whole control plane on loopback: etcd, API server, controllers, scheduler, fake kubelets.

Plain processes and plain blocking waits, so that a session-wide fixture can hold it without any event loop.
Permissions are real (RBAC); `admin_token` belongs to `system:masters`.
"""

import base64
import contextlib
import json
import secrets
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.controlplane.build import Binaries
from tests.controlplane.pki import Pki, issue
from tests.controlplane.processes import Server, ServerError, free_port

START_TIMEOUT = 300.0
# A port found free can be taken before the server binds it.
PORT_ATTEMPTS = 5
_PORT_TAKEN = "address already in use"

ISSUER = "https://kubernetes.default.svc"
# Fake pods get addresses in 127.64.0.0/12: a test's own listener can stand at the address of a pod.
POD_NETWORK = "127.64.0.1/12"
# The defaults (20/s) are for clusters that controllers share with users; tests wait for these controllers.
_CLIENT_RATE = ["--kube-api-qps=500", "--kube-api-burst=1000"]
UNCACHED = "daemonsets.apps"
# etcd and the API server are started first.
_STORAGE_AND_API = 2
_API = 1
_STAGES = Path(__file__).parent / "stages"


class ControlPlane:
    """A running control plane. `server`, `admin_token`, `ca_file` and `kubeconfig` are what clients need."""

    def __init__(self, binaries: Binaries, folder: Path) -> None:
        """Starts everything in `folder` (data, keys, logs). Raises ServerError."""
        self.folder = folder
        self.binaries = binaries
        self.admin_token = secrets.token_urlsafe(24)
        self.pki: Pki = issue(folder)
        self.ca_file = self.pki.ca
        self._servers: list[Server] = []
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """Raises ServerError when one of the servers has died."""
        for server in self._servers:
            server.check()

    def stop(self) -> None:
        """Stops every server, the ones that were started last first, and drops the data; logs stay."""
        while self._servers:
            self._servers.pop().stop()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def stop_controllers(self) -> None:
        """Leaves etcd and the API server by themselves: nothing changes any more but by what clients ask for."""
        while len(self._servers) > _STORAGE_AND_API:
            self._servers.pop().stop()

    def stop_api_server(self) -> None:
        """Stops the API server, and nothing else; it is to be started again before the test ends."""
        self._servers.pop(_API).stop()

    def start_api_server(self) -> None:
        """Starts it where it was, and does not wait: its clients find back by themselves.

        In the thread that lives as long as the test run, with whose end the kernel ends what it has started.
        """
        port = int(self.server.rpartition(":")[2])
        self._servers.insert(_API, self._launch("kube-apiserver", self._apiserver_command(port)))

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One blocking request as admin. Raises urllib.error.HTTPError with the server's refusal."""
        headers = {"Authorization": f"Bearer {self.admin_token}", "Content-Type": "application/json"}
        return _call(f"{self.server}{path}", method, body, headers, ssl.create_default_context(cafile=self.ca_file))

    def compact(self) -> None:
        """Makes etcd forget all versions before the newest, and tells the API server so in its own way.

        The API server watches that key (apiserver/pkg/storage/etcd3/compact.go), and its cache asks every 15 s what
        was forgotten: until then it may still answer from snapshots of its own.
        """
        revision = self._etcd("/v3/kv/range", {"key": _base64("/")})["header"]["revision"]
        self._etcd("/v3/kv/put", {"key": _base64("compact_rev_key"), "value": _base64(revision)})
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def _start(self) -> None:
        self._etcd_url = self._on_free_port("etcd", self._etcd_command, self._etcd_serves)
        self.server = self._on_free_port("kube-apiserver", self._apiserver_command, self._apiserver_serves)
        self.kubeconfig = self._write_kubeconfig()
        for name, command in (
            ("kube-controller-manager", self._controllers_command()),
            ("kube-scheduler", self._scheduler_command()),
            ("kwok", self._kwok_command()),
        ):
            self._servers.append(self._launch(name, command))
        controllers = self._servers[2]
        controllers.wait_for(self._namespaces_work, "serving namespaces", START_TIMEOUT)

    def _launch(self, name: str, command: list[str]) -> Server:
        return Server(name, [self.binaries[name], *command], self.folder / f"{name}.log")

    def _on_free_port(self, name: str, command: Callable[[int], list[str]], serves: Callable[[str], bool]) -> str:
        """The URL of a server that picked no port itself; it is tried on another one when the first is taken."""
        scheme = "http" if name == "etcd" else "https"
        for attempt in range(PORT_ATTEMPTS):
            port = free_port()
            url = f"{scheme}://127.0.0.1:{port}"
            server = self._launch(name, command(port))
            try:
                server.wait_for(partial(serves, url), "ready", START_TIMEOUT)
            except ServerError:
                server.stop()
                if attempt + 1 == PORT_ATTEMPTS or _PORT_TAKEN not in server.tail():
                    raise
            else:
                self._servers.append(server)
                return url
        raise AssertionError("the last attempt returns or raises")

    def _etcd_command(self, port: int) -> list[str]:
        peer = free_port()
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{port}",
            f"--advertise-client-urls=http://127.0.0.1:{port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_command(self, port: int) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        return [
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.pki.certificate}",
            f"--tls-private-key-file={self.pki.key}",
            f"--service-account-key-file={self.pki.service_accounts}",
            f"--service-account-signing-key-file={self.pki.service_accounts}",
            f"--service-account-issuer={ISSUER}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            f"--token-auth-file={tokens}",
            "--endpoint-reconciler-type=none",
            # One kind that no test needs fast is read from etcd: there a compaction shows at once.
            f"--watch-cache-sizes={UNCACHED}#0",
        ]

    def _controllers_command(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={self.pki.service_accounts}",
            "--leader-elect=false",
            "--secure-port=0",
            # On a busy machine fake kubelets are late with their leases. The default (50 s) then makes the node's pods
            # not ready, and nothing makes them ready again.
            "--node-monitor-grace-period=1h",
            *_CLIENT_RATE,
        ]

    def _scheduler_command(self) -> list[str]:
        return [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0", *_CLIENT_RATE]

    def _kwok_command(self) -> list[str]:
        stages = [f"--config={stage}" for stage in [*self.binaries.stages, *sorted(_STAGES.glob("*.yaml"))]]
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes=true",
            f"--cidr={POD_NETWORK}",
            *stages,
        ]

    def _write_kubeconfig(self) -> Path:
        """kubectl's file format is YAML, of which JSON is a subset."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [
                {"name": "tests", "cluster": {"server": self.server, "certificate-authority": str(self.ca_file)}}
            ],
            "users": [{"name": "admin", "user": {"token": self.admin_token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
        }
        path = self.folder / "admin.kubeconfig"
        path.write_text(json.dumps(content))
        path.chmod(0o600)
        return path

    def _etcd_serves(self, url: str) -> bool:
        return _answers(f"{url}/health", None)

    def _apiserver_serves(self, url: str) -> bool:
        return _answers(f"{url}/readyz", ssl.create_default_context(cafile=self.ca_file))

    def _namespaces_work(self) -> bool:
        """The service account controller is up: pods can be created."""
        with contextlib.suppress(urllib.error.HTTPError):
            return bool(self.call("GET", "/api/v1/namespaces/default/serviceaccounts/default"))
        return False

    def _etcd(self, path: str, body: object) -> dict[str, Any]:
        return _call(f"{self._etcd_url}{path}", "POST", body, {"Content-Type": "application/json"}, None)


def _base64(text: str) -> str:
    """How etcd's JSON gateway wants bytes."""
    return base64.b64encode(text.encode()).decode()


def _answers(url: str, tls: ssl.SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=tls) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _call(url: str, method: str, body: object, headers: dict[str, str], tls: ssl.SSLContext | None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=30, context=tls) as answer:
        parsed: dict[str, Any] = json.load(answer)
        return parsed
