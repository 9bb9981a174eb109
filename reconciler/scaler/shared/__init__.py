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
    writers    who else writes the pool's size
    repair     pods and claims that only a deletion can help
    snapshot   stores and memory to facts
    standing   all of that together, as this process sees it in the present term
    act        API calls; marks: those that mark busy pods
    assigning, scaling, keeping, mending   what looks do: places, the size, the set, its pods
    looking    the two looks, made of those
    controller which events lead to which look, and what the desk is told
    report     metrics, events, log lines; stories: the words of the events
    describe   the pool in the state document
    wiring     puts it together

`facts`, `decide`, `shrink`, `conditions`, `spec`, `objects` and `repair` are pure.
"""
