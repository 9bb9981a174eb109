"""What people are told about pods that are admitted again: what happened, to which pod, why, and what to do."""

from ebbtide.exclusion.carried import Difference
from ebbtide.kube.resources import PODS
from reconciler.engine.events import Event, Regarding
from reconciler.readmission.decide import Deletion, PendingPod
from reconciler.readmission.memory import LONGEST_PAUSE, WARN_AFTER


def readmitted(deletion: Deletion) -> Event:
    """A pod was deleted."""
    note = f"Pod {deletion.pod.key} was deleted so that it is admitted again: {deletion.why}."
    return Event(_about(deletion.pod), "Normal", "PodReadmitted", "Delete", note)


def futile(pod: PendingPod, why: Difference) -> Event:
    """Deleting has no effect."""
    note = (
        f"{pod.owner} had a waiting pod deleted {WARN_AFTER} times so that it is admitted again, and each time its "
        f"successor came back with the same fault: {why}. It is tried again more and more slowly, at last "
        f"every {LONGEST_PAUSE / 60:g} min. Check that the admission webhook runs, that the API server reaches and "
        "trusts it, and that no other webhook undoes its work."
    )
    return Event(_about(pod), "Warning", "ReadmissionWithoutEffect", "Delete", note)


def _about(pod: PendingPod) -> Regarding:
    return Regarding(PODS, pod.name, pod.uid, pod.traits.namespace)
