"""Looking for settings of a cluster that would defeat the block: `snapshot` reads, the checks judge.

`decide` is the table of contents of the checks: `installation`, `nodes`, `admission`, `autoscaler`, `termination`,
`descheduler`. Each is a pure function of the facts and gives findings (`finding`); a part of the cluster that could not
be read (`unread`) makes its checks unknown and leaves the others alone. `programs` knows which program a container
runs, `registered` how the webhook is registered and whether it is asked. `report` is what is told.
"""
