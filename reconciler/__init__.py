"""The leader-elected program: watches the cluster, decides, acts.

`main` puts the process together, `controllers` lists what the leader runs, each in a package of its own over `engine`;
`needs` are the permissions. `state` and `explain` show what is decided and why, `inquiry` reads a cluster for them.
"""

import ebbtide.service.lean  # noqa: F401 - before anything here imports structlog
