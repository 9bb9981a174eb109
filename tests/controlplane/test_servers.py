"""The control plane of the tests is what it claims to be."""

import pytest

from tests.controlplane.build import VERSION
from tests.controlplane.servers import ControlPlane

pytestmark = pytest.mark.controlplane


def test_version(control_plane: ControlPlane) -> None:
    """The API server names the release that it was built from, so that clients trust it."""
    assert control_plane.call("GET", "/version")["gitVersion"] == VERSION
