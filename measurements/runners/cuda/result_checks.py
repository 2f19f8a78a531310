"""Check on the GPU that a kernel's results are correct and that the kernel changed no other memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from measurements.runners.cuda.check_kernels import (
    GUARD,
    KERNEL,
    MODE_ANY,
    MODE_EQUAL,
    MODE_ZERO,
    THREADS,
    entry_for,
    initial_report,
)
from measurements.runners.cuda.device_arrays import LoadedModule, ProblemData, Slots
from measurements.trials.comparison import error_text, errors
from search_spaces.hardware.dtypes import DTYPES, DType
from search_spaces.launches.operand import Operand


class WrongResult(Exception):
    """Wrong result of a kernel. ``damage`` is true if memory that other candidates need was overwritten."""

    def __init__(self, reason: str, worst: float, damage: bool = False) -> None:
        super().__init__(reason)
        self.worst = worst
        self.damage = damage


class ResultChecks:
    """Checks of results. ``functions`` are the kernels of ``check_kernels`` by name; ``blocks`` is their grid size."""

    def __init__(self, cp: Any, functions: Mapping[str, Any], blocks: int) -> None:
        self._cp = cp
        self._functions = functions
        self._blocks = blocks

    def verify_healthy(self, stream: Any) -> None:
        """Run known-good kernels on ``stream``. Raises RuntimeError if their results are wrong."""
        cp = self._cp
        slots = Slots(cp, Operand("health", "input", DTYPES["u32"], (1000,)), 3)
        pattern = np.arange(1000, dtype=np.uint32) * np.uint32(2654435761)
        wanted = cp.asarray(pattern)
        slots.fill(stream, wanted)
        if self._differences(slots, MODE_EQUAL, wanted) != (0, 0):
            raise RuntimeError("a known-good kernel found differences between equal arrays")
        pattern[617] ^= np.uint32(1)
        if self._differences(slots, MODE_EQUAL, cp.asarray(pattern)) != (3, 0):
            raise RuntimeError("a known-good kernel did not report the differences between unequal arrays")

    def largest_error(self, program: LoadedModule, data: ProblemData, when: str) -> float:
        """Return the largest ratio of an error to its tolerance. Raises WrongResult if it exceeds 1."""
        most = 0.0
        for slot in program.slots:
            operand = slot.operand
            # A worker that does not know the operator leaves the check to the tuning process.
            if operand.role not in ("output", "inout") or operand.name not in data.reference:
                continue
            worst, wrong, first = self.error(slot, data)
            most = max(most, worst)
            if wrong:
                wanted, allowed = data.reference[operand.name], data.tolerance[operand.name]
                value = self._element(slot.array(0), first, operand.dtype)
                bounds = self._element(wanted, first, None), self._element(allowed, first, None)
                where = tuple(int(i) for i in np.unravel_index(first, operand.shape))
                text = error_text(operand.name, where, value, *bounds, wrong=wrong, total=operand.size)
                raise WrongResult(when + text, most)
        return most

    def error(self, slot: Slots, data: ProblemData) -> tuple[float, int, int]:
        """Compare the first copy of an output with its reference.

        Returns:
            The largest ratio of an error to its tolerance, the number of wrong elements, and the index of the first
            wrong element.
        """
        name, result = slot.operand.name, slot.array(0)
        arguments = (result, data.reference[name], data.tolerance[name], np.uint64(slot.operand.size))
        report = self._report(entry_for(slot.operand.dtype.name), self._blocks, 1, arguments)
        worst, wrong, first = float(report[2:3].view(np.float64)[0]), int(report[0]), int(report[1])
        return (worst, wrong, first) if not wrong else self._recheck(slot, data, worst, wrong, first)

    def _recheck(self, slot: Slots, data: ProblemData, worst: float, wrong: int, first: int) -> tuple[float, int, int]:
        """Recheck the first wrong element on the CPU. If that element is correct there, recheck all elements."""
        name, dtype = slot.operand.name, slot.operand.dtype
        rounded_to = None if data.problem is None else data.problem.reference_dtype(name)
        arrays = [a.reshape(-1) for a in (slot.array(0), data.reference[name], data.tolerance[name])]

        def decided(some: list[Any]) -> tuple[float, int, int]:
            ratio, bad = errors(dtype, *map(self._cp.asnumpy, some), rounded_to=rounded_to)
            return float(np.where(np.isnan(ratio), np.inf, ratio).max()), int(bad.sum()), int(bad.argmax())

        ratio, is_wrong, _ = decided([a[first : first + 1] for a in arrays])
        return (max(worst, ratio), wrong, first) if is_wrong else decided(arrays)

    def _element(self, array: Any, index: int, dtype: DType | None) -> Any:
        """Return an element as a Python float, or an int if its type is an integer type."""
        one = self._cp.asnumpy(array.reshape(-1)[index : index + 1])
        return (dtype.load(one) if dtype is not None and dtype.is_float else one)[0].item()

    def expect_undamaged(self, program: LoadedModule, data: ProblemData) -> None:
        """Check that only outputs were written.

        Inputs must be unchanged, workspaces that start as zeros must end as zeros, and guard bytes after every array
        must be unchanged.
        """
        for slot in program.slots:
            operand = slot.operand
            if operand.role == "input":
                inside, after = self._differences(slot, MODE_EQUAL, data.inputs[operand.name])
                complaint = f"{inside} bytes of input {operand.name} were changed"
            elif operand.zeroed:
                inside, after = self._differences(slot, MODE_ZERO, None)
                complaint = f"{inside} bytes of workspace {operand.name} are not zero after the launch"
            else:
                inside, after = self._differences(slot, MODE_ANY, None)
                complaint = ""
            if inside:
                raise WrongResult(complaint, math.inf, damage=True)
            if after:
                raise WrongResult(f"{after} bytes after {operand.name} were written", math.inf, damage=True)

    def _differences(self, slots: Slots, mode: int, wanted: Any) -> tuple[int, int]:
        """Return two counts for all copies of an array: wrong bytes in the copies, and changed bytes after them."""
        expected = slots.array(0) if wanted is None else wanted
        arguments = (
            slots.array(0),
            expected,
            np.uint64(slots.operand.bytes),
            np.uint64(slots.stride),
            np.int32(mode),
            np.int32(GUARD),
        )
        blocks = max(1, min(self._blocks, math.ceil(slots.stride / THREADS)))
        report = self._report(KERNEL.entry, blocks, slots.copies, arguments)
        return int(report[0]), int(report[2])

    def _report(self, entry: str, blocks: int, slots: int, arguments: tuple[Any, ...]) -> Any:
        report, function = self._cp.asarray(np.array(initial_report(), dtype=np.uint64)), self._functions[entry]
        function((blocks, slots), (THREADS,), (*arguments, report))
        return self._cp.asnumpy(report)
