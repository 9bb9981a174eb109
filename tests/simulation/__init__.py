"""The whole reconciler on the embedded cluster and simulated time: events, order, faults, restarts, load.

`stage` runs replicas of the program and says what was expected, `wiretap` sees what reaches the server, `notation`
writes nodes and pods down shortly. `test_*` play single stories; `history`, `invariants` and `replay` random ones, each
of which leaves an `account`.
"""
