"""Cache folder of compiled files on this machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

CUBINS = Path("cubin", "cubins")  # subfolder of compiled kernels; the name of each file is the SHA-256 of its content
LISTINGS = Path("cubin", "listings")  # subfolder of disassembled kernels


class CacheUnusable(ValueError):
    """The cache cannot be created or written. The message is one line with the remedy."""


def cache_root() -> Path:
    """Return AUTOSCHED_CACHE_DIR, or ``autosched`` in the user's cache folder (XDG).

    Raises CacheUnusable if there is no home folder.
    """
    chosen = os.environ.get("AUTOSCHED_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(caches) if caches else Path.home() / ".cache") / "autosched"
    except RuntimeError as error:
        raise CacheUnusable("there is no home folder for the cache: set AUTOSCHED_CACHE_DIR to a folder") from error


def check_writable(folder: Path) -> None:
    """Raise CacheUnusable if ``folder`` cannot be created or written. Creates no permanent files."""
    try:
        nearest = next((path for path in (folder, *folder.parents) if _exists(path)), folder)
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(bytes(4096))  # data are written, because a full disk still accepts empty files
            file.flush()
    except OSError as error:
        raise cannot_write(folder, error) from error


def _exists(path: Path) -> bool:
    """Return True if ``path`` exists. Unlike ``Path.exists``, raise OSError for an invalid name."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def make_folder(folder: Path) -> None:
    """Create ``folder`` and check that it is writable. Raises CacheUnusable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    check_writable(folder)


def put(temporary: str | Path, path: Path) -> None:
    """Move a complete file to ``path`` in the cache, after synchronising it to disk.

    Raises OSError. If ``path`` is a folder, the message names the remedy.
    """
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    try:
        os.replace(temporary, path)
    except (IsADirectoryError, NotADirectoryError) as error:
        raise OSError(f"{path} is a folder, but the cache needs a file of that name: remove the folder") from error


def publish(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        put(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def cannot_write(folder: Path, error: OSError) -> CacheUnusable:
    """Convert a system error in the cache to a CacheUnusable with the remedy."""
    return CacheUnusable(
        f"the compile cache {str(folder)!r} cannot be written ({error.strerror or error}): "
        "set AUTOSCHED_CACHE_DIR to a writable folder"
    )
