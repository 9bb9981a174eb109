"""The chart as it is rendered, without a cluster; what it does on one is in `tests/controlplane/test_chart*.py`."""
