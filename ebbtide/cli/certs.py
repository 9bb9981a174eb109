"""`ebbtide certs`."""

from argparse import ArgumentParser, Namespace

from certs import main as program


def add_arguments(parser: ArgumentParser) -> None:
    program.add_arguments(parser)


def run(arguments: Namespace) -> int:
    return program.start(arguments)
