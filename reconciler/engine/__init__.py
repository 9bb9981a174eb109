"""Machinery under the controllers, knowing nothing of what they decide.

`queue` holds keys to look at, `informer` fills it from stores, `controller` takes keys out and owns the retry policy,
`lease` says who may act, `permissions` checks at the start what the program cannot do without, `context` is what every
controller is built from.
"""
