"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes | bytearray) -> None:
    """Write ``data`` beside ``path``, then give it that name; whatever goes wrong, no half file is left.

    Raises:
        OSError: the folder does not exist or cannot be written, or the disk is full.
    """
    # Not the whole name: one of the greatest length has room for nothing behind it.
    number, part = tempfile.mkstemp(prefix=path.name[:32] + ".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
