"""A kopf operator that is told of every event of a node and does nothing with it; the cluster is that of $KUBECONFIG.

Run by the interpreter of `kopf_environment`, as a file: nothing of this repository can be imported there.
"""

import kopf  # type: ignore[import-not-found] # installed in the environment made for it only


def told(**_event: object) -> None:
    """Called by kopf for every event."""


if __name__ == "__main__":
    kopf.on.login()(kopf.login_with_kubeconfig)
    kopf.on.event("nodes")(told)
    kopf.run(standalone=True, clusterwide=True)
