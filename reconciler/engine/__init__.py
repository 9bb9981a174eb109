"""Machinery under the controllers, knowing nothing of what they decide.

`queue` holds keys to look at, `informer` fills it from stores, `controller` takes keys out, `verdict` owns the retry
policy. `lease` (over `lease_lock`) says who may act, `leading` is what a leader does, `beside` runs what has to go on
meanwhile. `together` sends requests at once, `rereading` looks again after a write was refused. `events` tells about
objects, `shared` holds what controllers have in common, `context` is what every controller is built from.
"""
