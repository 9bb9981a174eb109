"""`ebbtide webhook`."""

from argparse import ArgumentParser, Namespace

from webhook import main as program


def add_arguments(parser: ArgumentParser) -> None:
    program.add_arguments(parser)


def run(arguments: Namespace) -> int:
    program.start(arguments)
    return 0
