"""A real Kubernetes control plane for tests: its build, its servers, a fault proxy, and a small world to put on it."""
