"""Scenarios with load-data tasks: clients load tables through the scaler's front into workers of the cluster.

`tables` is what is loaded, `manifests` where; `loading` sends and watches, `scene` is how it stands. `promises`,
`account`, `picture` and `scenarios` are what the modules of the same names are to the rest of the demo.
"""
