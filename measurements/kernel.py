"""A kernel ready to compile: source, launch shape and the arrays it takes, in the order of its parameters."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from search_spaces.problem import Operand


@dataclass(frozen=True)
class Kernel:
    """``arguments`` are the pointers of the entry function, in order. Sizes are compile-time constants of the source.

    ``include_dirs`` are searched in order for ``#include <autosched/...>``.
    """

    name: str
    source: str
    include_dirs: tuple[str, ...]
    arguments: tuple[Operand, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int

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
        h.update(repr((self.name, self.grid, self.block, self.dynamic_shared_bytes)).encode())
        return h.hexdigest()


def headers_digest(folder: str) -> str:
    """SHA-256 over names and contents of all files below ``folder``."""
    h = hashlib.sha256()
    root = Path(folder)
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        content = path.read_bytes()
        h.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        h.update(content)
    return h.hexdigest()
