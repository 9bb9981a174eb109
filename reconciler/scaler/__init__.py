"""The worker scaler: where load-data tasks run, and the workers that are made and removed for them.

    front/       answers /load_data in every replica: reads requests, redirects, sends to the leader
    desk         one decision per task: joins the placements below, remembers who waits for what
    placement    local, dedicated or shared, a pure table
    local/       the pods of the template itself
    dedicated/   one worker per large task
    shared/      the pool for small ones
    status/      asks workers for their tasks, and keeps the last answers
    stores       pods, sets and claims of the workers' namespace, watched once for all
    discovery    whether everything was read that has to be before an unknown task is one
    contract     what front, desk and placements say to each other
    knowledge    what the placements are built on: objects, answers, and the way to ask
    watching     does not believe at once that all pods are gone
    refusals     why pods of workers are not made; resolving: whether DNS knows their names
    address      where workers are reached
    template     what workers are copied from; objects: what all that is made for them has in common
    size         how large a worker's pod is
    budget       keeps busy workers from being evicted
    needs        permissions
    report       decisions as metrics and log lines; metrics: those of workers
    describe     how things stand, for people
    wiring       puts it together

`task`, `pods` and `contract` are the words that all of them share.
"""
