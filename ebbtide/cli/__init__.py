"""The commands: one file each, arguments and printing only.

A command's module has `add_arguments(parser)` and `run(arguments) -> int` (the exit code); `commands` lists them.
"""
