"""Re-admission: pods that wait with an outdated zone exclusion are deleted, so that admission sees them again.

Node affinity of a pod cannot be changed. A pod that was created before a zone was blocked, or whose zone has been
opened since, would wait as it is for as long as it lives. `decide` is pure: which pod of an owner goes now, and why the
others stay. `snapshot` hands it its facts, `memory` what became of earlier deletions; `act` deletes; `controller` says
which events lead to which look; `report` and `stories` tell, `wiring` puts it together.
"""
