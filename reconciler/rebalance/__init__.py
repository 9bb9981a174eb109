"""Zone rebalance: moves workload out of a zone whose Spot capacity is at risk.

`signal`, `decide` (with `steps`, and `plan` for its values), `verdict`, `evictions` and `confirmation` are pure: which
signals there are, what to do with a cell, whether the block holds, which pods go and when, and whether their node is
still the one that was meant. `snapshot` and `memory` hand them their facts; `act` writes taints, `drain` sends
evictions and `answers` says what comes back, `left` follows pods of nodes that are emptied no longer; `controller` says
which events lead to which look. `status` keeps how each cell was last seen, `report` turns outcomes into metrics, logs
and events, whose words are `stories`. `describe` shows decisions as documents, `wiring` puts it all together.
"""
