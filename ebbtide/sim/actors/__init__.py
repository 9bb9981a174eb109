"""The programs around an API server, small: kubelets, scheduler, workload controllers, volume binder, autoscaler, spot.

    ensemble     all of them at once, each in the loop of reaction
    kubelet      nodes and the pods on them
    scheduler    the node for a pod, by placement; predicates: where one may stand; node_selectors: what terms name
    workloads    the controllers statefulset and deployment; replication: what they share
    binder       volumes for claims
    autoscaler   node groups, by growth and shrinkage; templates: what a new node looks like; cloud: where it comes from
    rooms        nodes with their pods, as scheduler and autoscaler see them; amounts: what they offer and ask for
    spot         signals, notices and false alarms

Each is a pure decision (objects and time in, what to write out) with a thin loop around it. They read and write the
embedded server's storage directly, wait only on loop timers, so that they run on simulated time, and take every random
choice from the generator that they are handed. What they copy from the real programs, and from which version, is said
where it is copied.
"""
