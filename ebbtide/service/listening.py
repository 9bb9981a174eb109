"""The socket that a program listens on; where it cannot be had, which key names it and who has set that."""

import errno
import os
import socket
from typing import Final, Self

from ebbtide.connecting import address
from ebbtide.errors import EbbtideError, UsageError

_BACKLOG: Final = 128
_WHY: Final = {
    errno.EADDRINUSE: "something else listens there",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


class ListenError(EbbtideError):
    """The address cannot be had now. `key` of the configuration names it, `origin` says who set that; "" if unknown."""

    def __init__(self, where: str, why: str, key: str = "", origin: str = "") -> None:
        subject = f'{key} = "{where}"' if key else where
        super().__init__(f"{subject} cannot be listened on: {why}{f' [{origin}]' if origin else ''}")
        self.key = key
        self._said = where, why

    def set_by(self, origin: str) -> Self:
        """The same, which says where the value of the key came from."""
        return type(self)(*self._said, self.key, origin)


class UnusableAddressError(ListenError):
    """An address that cannot be had on this machine at all."""

    exit_code = UsageError.exit_code


def bind(host: str, port: int, key: str = "") -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ListenError, which names the key."""
    where = address(host, port)
    try:
        family, kind, protocol, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UnusableAddressError(where, str(error.strerror), key) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        why = _WHY.get(error.errno or 0) or os.strerror(error.errno or 0)
        raise (ListenError if taken else UnusableAddressError)(where, why, key) from error
    return listening
