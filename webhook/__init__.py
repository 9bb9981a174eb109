"""Admission webhook: keeps pods out of blocked zones, and pins load-data workers to their node group.

    review       what the API server asks, and how it is answered; pure
    decide       what is to be done about it, and why; pinning: what a worker lacks; pure
    patch        the answer as operations, which pointer builds on the raw object; pure
    alike        one answer for pods that are alike; outline: one patch for those that are decided alike
    state        what is known of the cluster
    connection   HTTP, of which messages has the heads and the replies; budget: room for large bodies
    serving      the port, over TLS
    app          a request in, an answer out
    tls          whom to talk to; readiness: whether an API server would trust us
    witness      says on the own pod which CAs are known
    figures      counters that cost nothing; report: metrics and log lines
    needs        permissions
    workers      several processes on one port
    main         puts it together
    explain      what would be done with an object, for people
    probe        whether the API server asks the webhook, for `helm test` and `ebbtide preflight`

No request leads to a write. The program writes one annotation on its own pod (`witness`); `probe`, which runs
when somebody asks, creates a pod by dry run.
"""

import ebbtide.service.lean  # noqa: F401 - before anything here imports structlog
