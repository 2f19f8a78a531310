"""Emulate one launch of an executable several times, starting from the same memory.

The program continues with the memory that the last run leaves. The caller chooses the runs
(``autosched.verify.executables``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from measurements.emulator.effect import (
    HARMLESS,
    POISON_PATTERNS,
    UNWRITTEN,
    as_notes,
    ends_alike,
    only_undefined_values,
    time_limit_of,
)
from measurements.emulator.emulator import run_job
from measurements.emulator.executables.launch_description import ARENA_BASE, LaunchDescription
from measurements.emulator.executables.modules import PtxModule
from measurements.emulator.executables.order import CallSites
from measurements.emulator.executables.reported import KeyedFinding, ReportedFindings
from measurements.emulator.executables.result import LaunchFinding
from measurements.emulator.executables.writes import Stretch, Writes, stretches
from measurements.emulator.findings import Emulation, FindingKind, of_compiled_code
from measurements.emulator.host_order import Use
from measurements.emulator.order import ASCENDING, Order
from measurements.emulator.suppression import suppress
from measurements.files.demangle import demangled

_ILLEGAL_ADDRESS, _LAUNCH_FAILURE, _TIMEOUT, _ASSERTION, NOT_SUPPORTED = 700, 719, 702, 710, 801


@dataclass(eq=False)
class LaunchState:
    """State that the launches of a program share.

    Attributes:
        work: Folder of the runner's files.
        arena: Path of the file with the program's device memory.
        may_overlap: True if kernels may start before earlier kernels of their stream end (dependent launches).
        heap_was_used: True after the launch of a kernel that uses the device heap.
        unfinished: For each stream, the memory that its last kernels write, and the memory that they read. It is kept
            as long as a dependent launch may overlap with these kernels.
    """

    work: Path
    arena: str
    may_overlap: bool
    heap_was_used: bool = False
    unfinished: dict[int, tuple[tuple[Stretch, ...], tuple[Stretch, ...]]] = field(default_factory=dict)


@dataclass(eq=False)
class _Doubt:
    """Faults caused by undefined values, and the memory that depends on these values."""

    findings: list[KeyedFinding] = field(default_factory=list)
    memory: list[Stretch] = field(default_factory=list)


class ExecutableLaunch:
    """A launch of a program, which can be emulated several times, starting from the same memory.

    Attributes:
        number: Position of the launch in the program's sequence of launches, from 1.
        kernel: Demangled name of the kernel.
    """

    def __init__(
        self,
        number: int,
        launch: LaunchDescription,
        module: PtxModule,
        state: LaunchState,
        report: ReportedFindings,
        sites: CallSites,
    ) -> None:
        self.number, self.kernel = number, demangled(launch.kernel)
        self._launch, self._module, self._state, self._report = launch, module, state, report
        self._sites = sites
        self._committed: tuple[Emulation, _Doubt] | None = None
        self._uncommitted: list[_Doubt] = []
        state.may_overlap = state.may_overlap or launch.dependent
        if launch.dependent:
            launch.unfinished, launch.unfinished_reads = state.unfinished.get(launch.stream, ((), ()))
        state.heap_was_used = state.heap_was_used or launch.kernel in module.heap_kernels

    def run(
        self, order: Order = ASCENDING, *, launches: int = 1, perturb: bool = False, time_limit: float = 60.0,
        commit: bool,
    ) -> Emulation:  # fmt: skip
        """Emulate the launch and report its findings.

        Args:
            order: Order of blocks and threads.
            launches: Number of back-to-back launches on the same memory.
            perturb: If True, approximate instructions have the largest error that the PTX ISA allows.
            time_limit: CPU seconds.
            commit: If True, the program continues with the memory that this run leaves. Exactly one run of a launch,
                the last one, commits; all earlier runs use a copy of the memory.

        Returns:
            The emulation, without outputs.

        Raises:
            HostFailure: This machine cannot run the emulator.
            ValueError: A run has committed.
        """
        if self._committed is not None:
            raise ValueError("the launch has committed its memory: no further run is possible")
        settings = (order, launches, perturb)
        raw = self._emulate(*settings, time_limit, commit=commit)
        writes, state, launch, doubt = Writes.read(self._state.work / "data"), self._state, self._launch, _Doubt()
        open_ones = {(f.kind, f.file, f.line, launch.kernel, "fault") for f in raw.faults if f.kind in UNWRITTEN}
        if only_undefined_values(raw) and not state.heap_was_used and not open_ones <= self._report.seen:
            different = self._left_differently(raw, writes, *settings, time_limit)
            if different is not None and not different:
                raw = as_notes(raw, HARMLESS)
            elif different is not None and not launch.textures and all(map(launch.is_on_device, different)):
                doubt.memory = different
        if commit and state.may_overlap:
            written, read = ((), ()) if raw.waited else (launch.unfinished, launch.unfinished_reads)
            reads = [(first, count) for first, count, use in raw.uses if use & Use.READ]
            state.unfinished[launch.stream] = (
                tuple(joined((*written, *writes.pieces))),
                tuple(joined((*read, *reads))),
            )
        if commit and not state.heap_was_used:
            self._write(writes)
        done = suppress(of_compiled_code(raw), self._report.suppressions)
        self._report_run(done, doubt, "" if commit else f", order {order.name}")
        if commit:
            self._committed = done, doubt
        else:
            self._uncommitted.append(doubt)
        return done

    def _report_run(self, done: Emulation, doubt: _Doubt, suffix: str) -> None:
        launch, report = self._launch, self._report
        shape = f"grid ({', '.join(map(str, launch.grid))}), block ({', '.join(map(str, launch.block))}){suffix}"
        called_at = self._sites.called_at(launch.frames, self.kernel) if done.findings else ""
        for f in done.findings:
            finding = LaunchFinding(str(f.kind), f.message, f, self.kernel, self.number, shape, called_at)
            key = (f.kind, f.file, f.line, launch.kernel)
            if doubt.memory and f.is_fault and f.kind in UNWRITTEN:
                doubt.findings.append((finding, key))
                continue
            if f.is_fault and f.kind in UNWRITTEN:
                report.was_read()
            report.add(finding, (*key, f.grade))
        if done.status in ("unsupported", "compile_error"):
            report.complain(f"{self.kernel} cannot be emulated: {done.reason}")

    def conclude(self) -> tuple[Emulation, list[Stretch]]:
        """Report the delayed findings of all runs.

        Returns:
            The run whose memory the program continues with, and the ranges of this memory that depend on undefined
            values.

        Raises:
            ValueError: No run has committed.
        """
        if self._committed is None:
            raise ValueError("no run of the launch has committed, so the program cannot continue")
        done, doubt = self._committed
        known = {key for _, key in doubt.findings}
        for finding, key in (
            item for doubt_of_run in self._uncommitted for item in doubt_of_run.findings if item[1] not in known
        ):
            self._report.add(finding, (*key, "fault"))
        self._report.wait_for_reader(doubt.findings)
        return done, doubt.memory

    def _emulate(
        self, order: Order, launches: int, perturb: bool, time_limit: float, *, commit: bool, poison: int = 0
    ) -> Emulation:
        state = self._state
        copied = not commit or not state.heap_was_used
        job = self._launch.job(
            order, state.arena, launches=launches, perturb=perturb, copied=copied, list_copy=commit and copied
        )
        job += (
            f"poison {poison}\ntime_limit {time_limit!r}\nuses {int(commit)}\n"
            f"list_writes {int(commit and state.may_overlap)}\n"
        )
        (state.work / "data").write_bytes(b"")
        done = run_job(self._module.bytecode[self._launch.kernel], job, state.work, time_limit)
        self._report.result.emulated_seconds += done.run_seconds
        return done

    def _left_differently(
        self, done: Emulation, writes: Writes, order: Order, launches: int, perturb: bool, time_limit: float
    ) -> list[Stretch] | None:
        """Return the memory that depends on undefined values; None if they also change how the launch ends."""
        differ = np.zeros(0, np.uint64)
        limit = time_limit_of(done, time_limit)
        for poison in POISON_PATTERNS:
            other = self._emulate(order, launches, perturb, limit, commit=False, poison=poison)
            if not ends_alike(done, other):
                return None
            differ = np.union1d(differ, writes.difference(Writes.read(self._state.work / "data")))
        return stretches(differ)

    def _write(self, writes: Writes) -> None:
        """Write the memory of the committed run into the program's memory."""
        with open(self._state.arena, "r+b", buffering=0) as memory:
            for address, data in writes.each():
                memory.seek(address - ARENA_BASE)
                memory.write(data)


def joined(parts: Iterable[Stretch]) -> list[Stretch]:
    """Return the union of address ranges as disjoint, non-adjacent ranges in ascending order."""
    merged: list[Stretch] = []
    for address, count in sorted(parts):
        if merged and address <= sum(merged[-1]):
            first, before = merged[-1]
            merged[-1] = (first, max(before, address + count - first))
        else:
            merged.append((address, count))
    return merged


def error_of(done: Emulation) -> tuple[int, bool]:
    """Return the CUDA error of a launch, and whether the error is sticky.

    An error is sticky if the launch did not finish.
    """
    if done.status in ("unsupported", "compile_error"):
        return NOT_SUPPORTED, False
    if done.status == "timeout":
        return _TIMEOUT, True
    if done.status == "crashed":
        return _LAUNCH_FAILURE, True
    kinds = {f.kind for f in done.findings if f.is_fault}
    if any(f.kind is FindingKind.TRAP and "the assertion '" in f.message for f in done.findings):
        return _ASSERTION, True
    if {FindingKind.TRAP, FindingKind.OUT_OF_BOUNDS_GLOBAL} <= kinds:
        return _ILLEGAL_ADDRESS, True
    if kinds & {FindingKind.TRAP, FindingKind.DEADLOCK, FindingKind.BARRIER_NOT_REACHED, FindingKind.MISSING_LANES}:
        return _LAUNCH_FAILURE, True
    return 0, False
