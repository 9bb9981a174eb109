"""Doubles of the programs beside ebbtide, over real HTTP: the worker, and the client that imports through it."""
