"""The leader-elected program: watches the cluster, decides, acts.

    main           puts the process together; place: its sockets and its name
    controllers    what the leader runs, each in a package of its own over engine:
                   rebalance, readmission, certificates, signals, scaler
    needs          permissions
    state          what is decided, as one document; sources: where that is had; page shows it in a browser
    explain        why a zone, node, pod or load-data task is as it is
    inquiry        reads a cluster once, for explanations and for what shows the state

What is explained comes from the very functions that act.
"""

import ebbtide.service.lean  # noqa: F401 - before anything here imports structlog
