"""Admission webhook: keeps pods out of blocked zones, and pins load-data workers to their node group.

`review` reads what the API server asks, `decide` answers it, `patch` writes the answer as operations; those three are
pure. `state` keeps what is known of the cluster, `connection` speaks HTTP, `serving` TLS, and `app` answers; `tls` and
`readiness` say whom to trust and when to be trusted, `report` tells what was done, `main` puts it together. Nothing
here writes to the cluster.
"""

import ebbtide.service.lean  # noqa: F401 - before anything here imports structlog
