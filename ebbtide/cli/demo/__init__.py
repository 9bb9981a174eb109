"""`ebbtide demo`: the product's own code on an embedded cluster, watched.

`scenarios` is what is played, `stage` what it is played on, `play` plays it. `observer` writes down what happens as
`chronicle`; `scene` is how things stand at one moment. `picture` and `words` show these, `account` adds them up.
Nothing in here decides anything about zones, nodes or pods: what is shown was done by the real code and seen on the
cluster.
"""
