"""The embedded cluster: an API server in memory that speaks the real HTTP and JSON, and what moves behind it.

Tests, the demo and random histories run the product's own code against it, on real, scaled or simulated time.

    cluster      all of it as one
    time         the loops
    wire         a transport without sockets; faults: everything that a cluster can do wrong on the way
    api          HTTP; routes: what a URL means; discovery: what there is; refusals: every way to say no
    lists        LIST; watches: WATCH, over HTTP by streaming; selectors: of labels and fields
    writes       POST, PUT and PATCH; patches, apply: its formats; ownership: who owns which field
    registry     what a write may touch; defaults: what it fills in; shape: what is left of an object
    validation   what is refused; syntax: of names; event_rules: of events
    deletion     DELETE; budgets: the eviction
    storage      what etcd does; stored: one version of an object; history: all changes; listeners: who hears of them
    collector    what goes after its owner or its namespace
    kinds        the kinds that are served
    objects      builders with realistic shapes
    actors       kubelets, scheduler and controllers
    loaders      workers and clients of load-data tasks

It knows the wire and nothing of the programs that talk to it: a mistake they make must not be made here, too.
"""
