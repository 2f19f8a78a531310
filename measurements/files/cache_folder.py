"""Where compiled files are cached on this machine, and whether that folder is writable."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

CUBINS = Path("cubin", "cubins")  # in the cache: compiled kernels, each named by its SHA-256
LISTINGS = Path("cubin", "listings")  # in the cache: disassembled kernels


class CacheUnusable(ValueError):
    """The cache cannot be made or written. The message is one line that says what to do."""


def cache_root() -> Path:
    """AUTOSCHED_CACHE_DIR, else ``autosched`` in the user's cache folder (XDG). Raises CacheUnusable without a home."""
    chosen = os.environ.get("AUTOSCHED_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(caches) if caches else Path.home() / ".cache") / "autosched"
    except RuntimeError as error:
        raise CacheUnusable("there is no home folder for the cache: set AUTOSCHED_CACHE_DIR to a folder") from error


def check_writable(folder: Path) -> None:
    """Raise CacheUnusable where ``folder`` cannot be made or written. Leaves nothing behind."""
    try:
        nearest = next((place for place in (folder, *folder.parents) if place.exists()), folder)
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(bytes(4096))  # a full disk accepts an empty file, but no content
            file.flush()
    except OSError as error:
        raise cannot_write(folder, error) from error


def make_folder(folder: Path) -> None:
    """Make ``folder`` and write there. Raises CacheUnusable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    check_writable(folder)


def put(temporary: str | Path, path: Path) -> None:
    """Give a finished file its name in the cache, once all of it is on the disk.

    Raises OSError, with a sentence where a folder has that name.
    """
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    try:
        os.replace(temporary, path)
    except (IsADirectoryError, NotADirectoryError) as error:
        raise OSError(f"{path} is a folder, where the cache keeps a file: remove it") from error


def publish(path: Path, content: bytes) -> None:
    """Write a file that readers see whole or not at all. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        put(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def cannot_write(folder: Path, error: OSError) -> CacheUnusable:
    """Return the exception for an ``error`` in the cache."""
    return CacheUnusable(
        f"the compile cache {str(folder)!r} cannot be written ({error.strerror or error}): "
        "set AUTOSCHED_CACHE_DIR to a writable folder"
    )
