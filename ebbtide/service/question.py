"""A program that asks a cluster once: the connection, and its failures in the words of the exit codes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ebbtide.config import Settings
from ebbtide.errors import ClusterAccessError, EbbtideError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, KubeError, NoCredentials, Unauthorized, Unreachable
from ebbtide.service.arguments import Common
from ebbtide.service.metrics import product_version

Question = Callable[[Client, Settings], Awaitable[int]]

# Somebody is waiting: a server that says nothing for so many seconds is taken for one that is away.
PATIENCE: Final = 15.0


def ask(common: Common, question: Question, *, name: str = "ebbtide", patience: float = PATIENCE) -> int:
    """Runs `question` against the cluster that the flags point at; returns its exit code.

    `name` is the program's, for the server's records; `patience` is how long (seconds) the server may say nothing to a
    read. Raises ClusterAccessError for a cluster that cannot be reached or does not permit the question, EbbtideError
    for one that answers with another failure.
    """

    async def asked() -> int:
        settings = common.settings()
        access = await common.access()
        agent = f"{name}/{product_version()}"
        async with Client(access, field_manager=name, user_agent=agent, patience=patience) as client:
            try:
                return await question(client, settings)
            except Unauthorized as error:
                raise ClusterAccessError(access.refusal(error.message)) from error
            except NoCredentials as error:
                raise ClusterAccessError(str(error)) from error
            except Forbidden as error:
                raise ClusterAccessError(f"{access.identity} does not permit it: {error}") from error
            except Unreachable as error:
                raise ClusterAccessError(f"{access.identity} cannot be reached: {_why(error, patience)}") from error
            except KubeError as error:
                raise EbbtideError(f"{access.identity} answered with a failure: {error}") from error

    return asyncio.run(asked())


def _why(error: Unreachable, patience: float) -> str:
    timed_out = isinstance(error.__cause__, TimeoutError)
    return f"{error.what}: no answer within {patience:g} s" if timed_out else str(error)
