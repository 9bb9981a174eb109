"""Zone rebalance: its decisions as tables of named cases, its laws as properties."""
