"""The program that stands on every Spot node and tells the cluster what AWS says about it.

    imds     asks the instance metadata service
    watch    asks again and again, and hands on what is new
    act      puts a notice on the own node, and finds out beforehand whether it may
    report   metrics, events
    server   metrics and probes over HTTP
    main     flags, and how the parts are put together

It is a program of its own, started by `ebbtide agent`, and imports neither the configuration nor aiohttp: see
docs/decisions/0009-an-agent-that-fits-on-every-node.md.
"""

import ebbtide.service.lean  # noqa: F401 - before anything here imports structlog
