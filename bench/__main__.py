"""All figures, one after the other: `python -m bench`.

`--kopf` and `--go` measure beside kopf, and beside programs in Go, too, where they are peers.
"""

import argparse
import sys

from bench import (
    agent,
    events_cpu,
    evictions,
    front,
    idle,
    late_node,
    memory_nodes,
    pool_placement,
    sqs,
    status_round,
    taint_zone,
    webhook,
    webhook_large,
    worker_start,
)


def main(argv: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--kopf", action="store_true", help="measure kopf too")
    parser.add_argument("--go", action="store_true", help="measure programs in Go too; they are built first")
    options = parser.parse_args(argv)
    kopf, go = ["--kopf"] * options.kopf, ["--go"] * options.go
    taint_zone.main([])
    late_node.main([])
    evictions.main([])
    idle.main([])
    memory_nodes.main(kopf)
    events_cpu.main(kopf + go)
    front.main([])
    status_round.main([])
    worker_start.main([])
    pool_placement.main([])
    agent.main([])
    sqs.main([])
    webhook.main(kopf + go)
    return webhook_large.main([])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
