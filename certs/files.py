"""A pair as files: only their owner can read them, each is there whole or not at all."""

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp

from certs.issue import new_authority, new_leaf
from certs.spec import BUNDLE, CERTIFICATE, KEY, Spec
from ebbtide.errors import EbbtideError, UsageError

# Beside the pair, so that another leaf can be issued by the same CA.
AUTHORITY_KEY = "ca.key"


def issue(directory: Path, spec: Spec, now: float, *, force: bool) -> list[Path]:
    """A new CA and a leaf of it, written into the directory; their paths.

    Raises UsageError where one of the files is there already, unless forced; EbbtideError when they cannot be written.
    """
    authority = new_authority(spec, now)
    leaf = new_leaf(spec, authority, now)
    # Keys first: a reader that comes between sees a pair that does not match yet, and looks again.
    contents = {
        AUTHORITY_KEY: authority.key_pem,
        BUNDLE: authority.certificate.pem,
        KEY: leaf.key_pem,
        CERTIFICATE: leaf.certificate.pem,
    }
    there = [name for name in contents if os.path.lexists(directory / name)]
    if there and not force:
        raise UsageError(f"{directory} has {', '.join(there)} already; --force overwrites")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return write(directory, contents)
    except OSError as error:
        # Of a file that could not take its final name that one is told: the other is gone already.
        raise EbbtideError(f"{error.filename2 or error.filename or directory}: {error.strerror or error}") from error


def write(directory: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes files of mode 0600. None is replaced before all are on the disk in full. Raises OSError."""
    waiting: dict[Path, Path] = {}
    try:
        for name, content in contents.items():
            # Made with mode 0600, under a name that nobody has.
            descriptor, path = mkstemp(dir=directory, prefix=f".{name}.")
            waiting[Path(path)] = directory / name
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for temporary, final in waiting.items():
            temporary.replace(final)
    finally:
        for temporary in waiting:
            temporary.unlink(missing_ok=True)
    return list(waiting.values())
