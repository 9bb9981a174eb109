"""The embedded cluster: an API server in memory that speaks the real HTTP and JSON, and what moves behind it.

Tests, the demo and random histories run the product's own code against it, on real, scaled or simulated time.

`storage` is what etcd and the registries do (versions, watches, finalizers, grace periods), `api` the HTTP in front
of it, `wire` a transport without sockets, `time` the loops, `faults` everything that a cluster can do wrong on the
way, `actors` the kubelets, scheduler and controllers, `loaders` workers and clients of load-data tasks, `objects`
builders with realistic shapes, `cluster` all of it as one.

It knows the wire and nothing of the programs that talk to it: a mistake they make must not be made here, too.
"""
