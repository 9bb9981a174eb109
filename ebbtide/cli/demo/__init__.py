"""`ebbtide demo`: the product's own code on an embedded cluster, watched.

`command` has the flags, `output` the forms in which it is watched. `scenarios` is what is played (each a `scenario`),
`promises` what has to be seen, `stage` what it is played on, `scenery` and `manifests` what stands there; `play` plays
it. `observer` writes down what happens as `chronicle`; `scene` is how things stand at one moment. `picture` and `words`
show these, `account` adds them up. `load` has the same for scenarios in which data is loaded.

Nothing in here decides anything about zones, nodes, pods or workers: what is shown was done by the real code and seen
on the cluster, or by its clients.
"""
