"""Dedicated workers: a StatefulSet, its Service and its volumes for one task, made when it comes, gone when it is idle.

Nothing is kept but on the cluster: a worker is a set with our label, and its annotations say whose it is. What a
process remembers (clocks, promises) it counts anew after a restart, always in the direction that keeps workers longer.

`sizes`, `names` and `objects` say what is made for a task; `decide` says what becomes of a worker. `memory` has the
clocks, `census` knows which sets have their Service, `snapshot` hands the facts over, `wants` has the clients that
wait, `admission` the limit. `spawn` is the way from a client to a worker, `removal` a worker's end, `act` writes.
`controller` says which events lead to which look, `placement` is what the desk speaks to; `report` and `stories` tell.
`basis` is what these parts stand on together, `wiring` puts them together.
"""
