"""What every long-running process of ebbtide has, whatever its job.

`log`, `metrics`, `probes`, `server` are what an operator sees of it; `program` makes a process of a coroutine,
`supervisor` runs its parts and ends it in order; `arguments` are the flags that all programs share. Nothing here knows
what the parts do.
"""
