"""`python -m docs.package FILE`: gives a chart that `helm package` has packed the bytes of its content alone.

Helm notes when it has packed, and packs what it finds in the order of the file system. What is in the package stays as
Helm has made it.
"""

import gzip
import io
import sys
import tarfile
from pathlib import Path
from typing import Final

_MODE: Final = 0o644


def settled(packed: bytes) -> bytes:
    """The same files with the same content, in the order of their names, at no time, of nobody."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as source, tarfile.open(fileobj=tar, mode="w") as target:
        for found in sorted(source.getmembers(), key=lambda member: member.name):
            content = source.extractfile(found)
            assert content is not None  # Helm packs files only
            member = tarfile.TarInfo(found.name)
            member.size, member.mode = found.size, _MODE
            target.addfile(member, content)
    return gzip.compress(tar.getvalue(), mtime=0)


if __name__ == "__main__":
    (path,) = map(Path, sys.argv[1:])
    path.write_bytes(settled(path.read_bytes()))
