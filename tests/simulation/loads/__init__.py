"""Random histories of imports: clients, fronts, the desk and all three placements, and several replicas.

`history` tells one from a seed; what happens in it is told by `clients` (each with its `imports`), `machines` and
`replicas`, which share its `course`. `laws` are what has to hold, `remains` what must not be left; `test_histories`
plays some.
"""
