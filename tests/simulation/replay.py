"""Plays random histories by hand.

python -m tests.simulation.replay 17          tells history 17: what happened, what was written, what is broken
python -m tests.simulation.replay 0-999       plays many, tells the seeds that fail; exits 1 if there are any
python -m tests.simulation.replay --of loads 17    the same of imports
"""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from tests.simulation import history
from tests.simulation.account import Account
from tests.simulation.loads import history as loads

KINDS: Final[Mapping[str, Callable[[int], Account]]] = {"nodes": history.run, "loads": loads.run}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replay", description=__doc__)
    parser.add_argument("seeds", help="one number, or two with a dash between them")
    parser.add_argument("--of", choices=KINDS, default="nodes", help="what the histories are about (default: nodes)")
    parser.add_argument("--processes", type=int, default=None, help="how many to use (default: one per processor)")
    arguments = parser.parse_args(argv)
    # The embedded server's complaints about the connections that histories break.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    first, _, last = arguments.seeds.partition("-")
    if not last:
        return _tell(KINDS[arguments.of](int(first)))
    return _play_many(arguments.of, range(int(first), int(last) + 1), arguments.processes)


def _play_many(of: str, seeds: range, processes: int | None) -> int:
    """Tells each failing history as soon as it is known, and how far it has come."""
    failed = 0
    with ProcessPoolExecutor(processes) as pool:
        for seed, account in zip(seeds, pool.map(partial(_broken, of), seeds, chunksize=4), strict=True):
            if account:
                failed += 1
                _say(failure(account))
            if (seed - seeds.start + 1) % 100 == 0:
                _say(f"{seed - seeds.start + 1} of {len(seeds)} histories played, {failed} failed")
    _say(f"{failed} of {len(seeds)} histories failed")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def failure(account: Account) -> str:
    """What is broken, and how to see how it came about."""
    lines = "\n".join(f"  {line}" for line in account.broken[:10])
    command = f"python -m tests.simulation.replay --of {account.of} {account.seed}"
    return f"history {account.seed}, replay with `{command}`:\n{lines}"


def _broken(of: str, seed: int) -> Account | None:
    account = KINDS[of](seed)
    return account if account.broken else None


def _tell(account: Account) -> int:
    told = [(float(line.split()[0]), line) for line in account.diary]
    for time, who, method, path, body, status in account.writes:
        if "/leases" not in path:
            told.append((time, f"{time:8.3f}     {who} {method} {path} → {status} {body.decode()[:300]}"))
    for _, line in sorted(told, key=lambda entry: entry[0]):
        _say(line)
    _say(failure(account) if account.broken else f"history {account.seed} is as it should be")
    return 1 if account.broken else 0


if __name__ == "__main__":
    sys.exit(main())
