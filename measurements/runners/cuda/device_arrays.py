"""GPU memory of a worker: copies of operands that launches use in rotation, a loaded module, and a problem's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from measurements.runners.cuda.check_kernels import GUARD
from measurements.runners.launch import LoadedLaunch
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem

_ALIGNMENT = 256  # alignment of every buffer in bytes, like cudaMalloc's
_GAP = 256  # number of guard bytes after every buffer


class Slots:
    """One allocation that holds ``copies`` copies of an operand, each followed by guard bytes."""

    def __init__(self, cp: Any, operand: Operand, copies: int) -> None:
        self._cp = cp
        self.operand = operand
        self.copies = copies
        self.stride = -(-(operand.bytes + _GAP) // _ALIGNMENT) * _ALIGNMENT
        self.memory = cp.cuda.alloc(self.stride * copies)
        self._arrays: dict[int, Any] = {}

    def array(self, copy: int) -> Any:
        """Return the copy with index ``copy`` as an array."""
        if copy not in self._arrays:
            storage = np.dtype(self.operand.dtype.storage)
            pointer = self.memory + copy * self.stride
            self._arrays[copy] = self._cp.ndarray(self.operand.shape, dtype=storage, memptr=pointer)
        return self._arrays[copy]

    def fill(self, stream: Any, contents: Any, byte: int = GUARD) -> None:
        """Write ``contents`` (if None, bytes of value ``byte``) to every copy. Write guard bytes after every copy."""
        self.memory.memset_async(GUARD, self.stride * self.copies, stream)
        for copy in range(self.copies):
            if contents is not None:
                pointer = self.memory + copy * self.stride
                pointer.copy_from_device_async(contents.data, self.operand.bytes, stream)
            elif byte != GUARD:
                (self.memory + copy * self.stride).memset_async(byte, self.operand.bytes, stream)


@dataclass(frozen=True)
class LoadedModule:
    """A loaded launch, and copies of its operands on the GPU."""

    loaded: LoadedLaunch
    slots: list[Slots]

    def launch(self, copy: int) -> None:
        """Launch the kernel on copy number ``copy`` of each operand, modulo the operand's number of copies."""
        self.loaded({s.operand.name: s.array(copy % s.copies) for s in self.slots})


@dataclass(frozen=True)
class ProblemData:
    """Arrays of a problem on the GPU, and its expected results."""

    problem: Problem | None  # None if this process does not know the operator
    inputs: Mapping[str, Any]
    reference: Mapping[str, Any]
    tolerance: Mapping[str, Any]
    slots: dict[str, Slots]
    copies: int
    cold_bytes: int
