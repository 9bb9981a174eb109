"""Failures that end a program, each with the exit code of the contract.

EbbtideError           1  failure while running
├── UsageError         2  unusable arguments or configuration
└── ClusterAccessError 3  cluster not reachable or not permitted
"""

from typing import ClassVar


class EbbtideError(Exception):
    """A failure that the user is told about in the exception's own words, without a traceback."""

    exit_code: ClassVar[int] = 1


class UsageError(EbbtideError):
    """Arguments or configuration cannot be used."""

    exit_code: ClassVar[int] = 2


class ClusterAccessError(EbbtideError):
    """The cluster cannot be reached, or does not permit what is needed."""

    exit_code: ClassVar[int] = 3
