"""Atomic replacement of files."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path


def publish(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically, replacing an existing file.

    The temporary file has an unpredictable name, because in a shared folder another user may have created a link with a
    predictable name. Raises OSError that names ``path``, with nothing changed.
    """
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):  # the folder does not exist
            temporary.unlink()
