"""Random histories of imports: clients, fronts, the desk and all three placements, and several replicas.

`history` tells one from a seed, `imports` are its clients, `laws` what has to hold; `test_histories` plays some.
"""
