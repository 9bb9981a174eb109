"""Where clients and we ourselves reach workers. Pure.

Clients are given names that outlive a pod, or with `pod-ip` its address; status questions always go to the pod's own
address, which cannot lead to another pod.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from ebbtide.config.scaler import WorkerScaler
from reconciler.scaler.pods import WorkerPod


@dataclass(frozen=True, slots=True)
class Addresses:
    """`port` is that of workers, `local_port` that of the template's pods; `domain` ends every name of the cluster."""

    scheme: str
    domain: str
    port: int
    local_port: int
    by_ip: bool = False

    @classmethod
    def of(cls, settings: WorkerScaler) -> Self:
        return cls(
            scheme=settings.scheme,
            domain=settings.cluster_domain,
            port=settings.worker_port,
            local_port=settings.local_port or settings.worker_port,
            by_ip=settings.worker_address == "pod-ip",
        )

    def host_of_service(self, namespace: str, service: str) -> str:
        """The name of a Service; a headless one with a single pod is that pod."""
        return f"{service}.{namespace}.svc.{self.domain}"

    def host_of_pod(self, pod: WorkerPod, service: str) -> str:
        """The name of one pod of a headless Service."""
        return f"{pod.name}.{self.host_of_service(pod.namespace, service)}"

    def dedicated(self, pod: WorkerPod, service: str) -> str:
        """A worker of its own Service, for clients: `<scheme>://<host>:<port>`."""
        return self._at(pod, self.host_of_service(pod.namespace, service), self.port)

    def shared(self, pod: WorkerPod, service: str) -> str:
        """One pod of the pool's Service, for clients."""
        return self._at(pod, self.host_of_pod(pod, service), self.port)

    def local(self, pod: WorkerPod, service: str) -> str:
        """A pod of the template itself, for clients; `service` is the template's `serviceName`."""
        return self._at(pod, self.host_of_pod(pod, service), self.local_port)

    def asked(self, pod: WorkerPod, *, local: bool = False) -> str:
        """Where we ask the pod for its tasks; "" for one without an address yet."""
        return self._url(_literal(pod.ip), self.local_port if local else self.port) if pod.ip else ""

    def _at(self, pod: WorkerPod, name: str, port: int) -> str:
        if not self.by_ip:
            return self._url(name, port)
        return self._url(_literal(pod.ip), port) if pod.ip else ""

    def _url(self, host: str, port: int) -> str:
        return f"{self.scheme}://{host}:{port}"


def _literal(address: str) -> str:
    return f"[{address}]" if ip_address(address).version == 6 else address
