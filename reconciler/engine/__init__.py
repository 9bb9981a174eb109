"""Machinery under the controllers, knowing nothing of what they decide.

`queue` holds keys to look at, `informer` fills it from stores, `controller` takes keys out, `verdict` owns the retry
policy. `lease` (over `lease_lock`) says who may act, `leading` is what a leader does, `permissions` checks at the start
what the program cannot do without, `events` tells about objects, `context` is what every controller is built from.
"""
