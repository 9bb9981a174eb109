"""The shared pool: small tasks on the pods of one StatefulSet that grows with them and shrinks to nothing when idle.

    facts      what is decided about: rules, pods by ordinal, who waits
    decide     which pod a task gets, and how large the pool has to be
    shrink     how far it may shrink, and what stands in the way
    conditions what an operator should know of it
    memory     which task is on which pod, idle clocks: from the ledger, from workers' answers, from own promises
    queue      who waits for a place, first come, first served
    ledger     the promises as they are stored on the cluster, and the lock between promising and shrinking
    spec       the size of a pod from the settings
    objects    StatefulSet, Service and patches
    snapshot   stores and memory to facts
    act        API calls
    controller which events lead to which look
    report     metrics, events, log lines
    describe   the pool in the state document

`facts`, `decide`, `shrink`, `conditions`, `spec` and `objects` are pure.
"""
