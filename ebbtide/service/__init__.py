"""What every program of ebbtide has, whatever its job.

`log`, `metrics`, `probes`, `server` are what an operator sees of a long-running process, `listening` is where it is
seen; `program` makes a process of a coroutine, `supervisor` runs its parts and ends it in order, `ending` gives it its
exit code and last words. `parser` reads command lines, `arguments` are the flags that all programs share, `question` is
a program that asks a cluster once, `permissions` whether it may, `connection` tells how that goes, `lean` keeps logging
small.

Nothing here knows what the parts do.
"""
