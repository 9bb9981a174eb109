"""How many connections may be open: each is a file, of which a process may have a number only.

A runtime may start a process with a limit of 1,024, for old programs that cannot handle more, and lets it ask for more.
If clients could take all of them, none would be left for the API server and the lease.
"""

import resource
from typing import Final

# For the API server, workers, other replicas, probes and logs.
_RESERVED: Final = 512


def most_connections(wanted: int) -> int:
    """Raises the limit of this process as far as it may and is of use; how many of `wanted` connections fit in."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _RESERVED
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return fitting(raised)


def fitting(files: int) -> int:
    """Connections that leave enough of so many files for everything else; never less than half of them."""
    return max(files - _RESERVED, files // 2)
