"""Signals from a queue: EventBridge tells of Spot instances, the leader tells the nodes.

`envelope` reads messages, `decide` says what becomes of one, `snapshot` knows which node an instance is, `act` stores
and deletes, `controller` is the loop, `queue` speaks to SQS (with the extra `ebbtide[sqs]`); `messages` is what the
loop knows of it. `report` tells, `wiring` puts it together.
"""
