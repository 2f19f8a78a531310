"""A file that its readers see whole or not at all."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path


def publish(path: Path, content: bytes) -> None:
    """Write ``content`` in place of what is at ``path``.

    Until it is whole it has a name that nobody could foresee: in a folder of others, a link may lie under any that can
    be guessed. Raises OSError, which names ``path``, with nothing changed.
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
        with suppress(OSError):  # where there is no such folder
            temporary.unlink()
