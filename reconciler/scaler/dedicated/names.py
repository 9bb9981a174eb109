"""What the objects of a dedicated worker are called. Pure.

A name can be made from a task, never a task from a name: the full id stands in an annotation.
"""

from hashlib import blake2b
from typing import Final

from reconciler.scaler.task import TaskId

# The StatefulSet controller labels pods with `<set>-<hash of ten characters>`, and a label's value has 63 at most.
LONGEST: Final = 52
_DIGEST_BYTES: Final = 10


def set_name(prefix: str, task: TaskId) -> str:
    """`<prefix>-<task>`, of StatefulSet and Service alike; a name that would be too long ends in a hash of itself.

    The hash begins with a letter, which no task id has, so that a shortened name is never the full one of another task.
    """
    full = f"{prefix}-{task}"
    if len(full) <= LONGEST:
        return full
    digest = f"h{blake2b(full.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"
    return f"{prefix[: LONGEST - len(digest) - 1].rstrip('-')}-{digest}"
