"""Atomic replacement of files."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path


def publish(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically, replacing an existing file.

    The content is first written to a temporary file. Its name is random: in a shared folder, another user could place a
    link at a predictable name. Raises OSError that names ``path``; the existing file is then unchanged.
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
        with suppress(OSError):  # the folder of ``path`` does not exist
            temporary.unlink()
