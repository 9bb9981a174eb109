"""All figures, one after the other: `python -m bench`, with `--kopf` also beside kopf where that is a peer."""

import sys

from bench import events_cpu, evictions, idle, late_node, memory_nodes, taint_zone


def main(argv: list[str]) -> int:
    """`argv` goes to the figures that have kopf as a peer."""
    taint_zone.main([])
    late_node.main([])
    evictions.main([])
    idle.main([])
    memory_nodes.main(argv)
    return events_cpu.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
