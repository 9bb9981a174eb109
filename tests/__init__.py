"""Tests, laid out like the packages that they test; `controlplane` and `conformance` need real servers."""
