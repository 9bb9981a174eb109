"""Addresses as clients get them, and as workers are asked."""

from dataclasses import replace

import pytest

from ebbtide.config.scaler import WorkerScaler
from reconciler.scaler.address import Addresses
from reconciler.scaler.pods import WorkerPod, worker_pod
from tests.reconciler.scaler.templates import NAMESPACE

DNS = Addresses.of(WorkerScaler())
BY_IP = Addresses.of(WorkerScaler(worker_address="pod-ip"))
WORKER = "load-data-worker-1-1701753296955293956-139-0"


def pod(name: str, ip: str = "10.0.0.7") -> WorkerPod:
    metadata = {"name": name, "namespace": NAMESPACE, "uid": "u", "resourceVersion": "1"}
    return worker_pod({"metadata": metadata, "status": {"podIP": ip}})


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (DNS.dedicated(pod(f"{WORKER}-0"), WORKER), f"http://{WORKER}.tidb-serverless.svc.cluster.local:19500"),
        (DNS.shared(pod("ldw-shared-2"), "ldw-shared"), f"http://ldw-shared-2.ldw-shared.{NAMESPACE}.svc.cluster.local:19500"),
        (DNS.local(pod("tikv-api-1"), "peer"), f"http://tikv-api-1.peer.{NAMESPACE}.svc.cluster.local:19500"),
        (BY_IP.dedicated(pod(f"{WORKER}-0"), WORKER), "http://10.0.0.7:19500"),
        (BY_IP.shared(pod("ldw-shared-2", "fd00::7"), "ldw-shared"), "http://[fd00::7]:19500"),
        (BY_IP.shared(pod("ldw-shared-2", ""), "ldw-shared"), ""),
        (replace(DNS, domain="corp.example", scheme="https").dedicated(pod("a-0"), "a"), f"https://a.{NAMESPACE}.svc.corp.example:19500"),
        (Addresses.of(WorkerScaler(local_port=20180)).local(pod("t-0"), "t"), f"http://t-0.t.{NAMESPACE}.svc.cluster.local:20180"),
    ],
)  # fmt: skip
def test_ws_01_clients_are_given_names_or_addresses_without_a_path(found: str, right: str) -> None:
    assert found == right


def test_workers_are_asked_at_their_own_address_whatever_clients_are_given() -> None:
    rules = Addresses.of(WorkerScaler(local_port=20180))
    assert rules.asked(pod("a-0")) == "http://10.0.0.7:19500"
    assert rules.asked(pod("a-0", "fd00::7"), local=True) == "http://[fd00::7]:20180"
    assert rules.asked(pod("a-0", "")) == ""
