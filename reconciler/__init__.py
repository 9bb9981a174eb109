"""The leader-elected program: watches the cluster, decides, acts.

    main           puts the process together; place: its sockets and its name
    controllers    what the leader runs, each in a package of its own over engine:
                   rebalance, readmission, certificates, signals, scaler
    needs          permissions
    state          what is decided, as one document; sources: where that is had; page shows it in a browser
    explain        why a zone, node or pod is as it is; explain_task, explain_waiting: the same for load-data tasks
                   and for pods that wait; explanation: what all of these consist of
    inquiry        reads a cluster once for them; near: what a misspelt name may have meant
    budgets        whether an eviction would be refused now

What is explained comes from the very functions that act.
"""

import ebbtide.service.lean  # noqa: F401 - before anything here imports structlog
