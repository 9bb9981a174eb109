"""Certificates of the admission webhook: issue, keep, rotate, publish.

    spec       what certificates of ours have to be like
    inspect    what a certificate says, or the fault in it; check: whether a pair may be served; pure
    layout     what lies where in the Secret; live: what configurations carry; seen: what replicas say they know; pure
    decide     the next step; steps: what the Secret holds after it; pure
    issue      makes CAs and leaves
    look       a look's question and its answer; answer: the one from the other; consult: in which process
    store      the one Secret; inject: the bundle into the configurations
    rotate     a look: read, ask, store, publish
    report     metrics and log lines
    watch      where the webhook gets its pair from; reloads: what it tells of that
    main       the commands; by_hand: what they change in a cluster, files: what they write
    examine    what there is, for people; show: as a table

Code only: key files never lie here, and nothing of a key is ever told.
"""
