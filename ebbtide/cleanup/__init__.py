"""Removing what the product has put on a cluster: `snapshot` reads, `decide` chooses, `act` removes.

`marks` are the words that are looked for. `sweep` is the whole of it; `leader` says whether a reconciler would put
everything back, `workers` which load-data workers are ours, `report` what is told.
"""
