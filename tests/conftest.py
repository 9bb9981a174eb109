"""Fixtures that every test may ask for: the real control plane, and a clean corner of it.

The control plane is started once per session, when the first test asks for it. What it needs is built then, with
progress on the terminal. A machine that cannot build or start it fails those tests; nothing is skipped.
"""

import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.ceiling import Ceiling
from tests.ceiling import add_option as pytest_addoption
from tests.controlplane.build import binaries
from tests.controlplane.processes import free_port
from tests.controlplane.proxy import FaultProxy, watched
from tests.controlplane.servers import ControlPlane
from tests.controlplane.world import World, world

# Laws take the time they need: a busy machine is no counter-example. Whether a change lands does not depend on luck;
# at a desk every run looks at other examples.
settings.register_profile(
    "ebbtide", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("ebbtide")

__all__ = ["pytest_addoption"]


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell has it for what it starts in the background. Programs inherit that, and tests interrupt some.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Ceiling(config), Ceiling.NAME)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much a test did that does as much as it has the time for (`record_property`)."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            terminalreporter.write_line(f"{report.nodeid}: {name}: {value}")


@pytest.fixture
def unused_tcp_port() -> int:
    """One on which nobody listens as long as the test lasts: the plugin's own may be somebody's a moment later."""
    return free_port()


@pytest.fixture(scope="session")
def session_control_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The running servers; tests take `control_plane`, which also looks whether they still live."""
    plugins = request.config.pluginmanager
    with plugins.getplugin("capturemanager").global_and_fixture_disabled(), plugins.getplugin(Ceiling.NAME).lifted():
        built = binaries()
    servers = ControlPlane(built, tmp_path_factory.mktemp("controlplane"))
    yield servers
    servers.stop()


@pytest.fixture
def control_plane(session_control_plane: ControlPlane) -> ControlPlane:
    """etcd, API server, controllers, scheduler and fake kubelets, alive."""
    session_control_plane.check()
    return session_control_plane


@pytest.fixture
async def cluster(control_plane: ControlPlane) -> AsyncIterator[World]:
    """A namespace and a node group of this test's own."""
    async with world(control_plane) as created:
        yield created


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    """A way to the API server that misbehaves as this test says. What the server forbids on it has to be announced."""
    async with watched(control_plane) as started:
        yield started


@pytest.fixture
async def second_proxy(control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    """Another way, to tell two clients apart."""
    async with watched(control_plane) as started:
        yield started
