"""A kernel ready to compile: source, launch shape and the arrays it takes, in the order of its parameters."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from search_spaces.operators.problem import Operand


@dataclass(frozen=True)
class Kernel:
    """``arguments`` are the pointers of the entry function, in order. Sizes are compile-time constants of the source.

    ``include_dirs`` are searched in order for ``#include <autosched/...>``. The entry is launched ``launches`` times,
    one after another on one stream with the same arguments: a launch sees all that the one before it wrote.
    """

    name: str
    source: str
    include_dirs: tuple[str, ...]
    arguments: tuple[Operand, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    launches: int = 1

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the source and every header below the include folders: the same digest, the same program."""
        h = hashlib.sha256(self.source.encode())
        for folder in self.include_dirs:
            h.update(headers_digest(folder).encode())
        h.update(repr((self.name, self.grid, self.block, self.dynamic_shared_bytes, self.launches)).encode())
        return h.hexdigest()


def headers_digest(folder: str) -> str:
    """SHA-256 over names and contents of all files below ``folder``, read again when a size or a time has changed."""
    return _contents_digest(folder, tuple(sorted(_files(folder))))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """(path, time of the last change in ns, size) of every file below ``folder``."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.is_file():
                status = entry.stat()
                yield entry.path, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _contents_digest(folder: str, files: tuple[tuple[str, int, int], ...]) -> str:
    h = hashlib.sha256()
    for path in sorted(Path(file) for file, _, _ in files):
        content = path.read_bytes()
        h.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        h.update(content)
    return h.hexdigest()
