"""Options of ptxas in a schedule (compiler controls): a register limit, an optimisation level, a control file.

Controls follow the parameters of the kernel template. The names of controls contain a dot, so they differ from the
names of parameters, which are identifiers. Spaces do not contain controls; ``plain`` returns a schedule without
controls.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from search_spaces.hardware.devices import Device, occupancy
from search_spaces.launches.control_file import PTXAS, ControlFile
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import included
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule

MAX_REGISTERS = "ptxas.max_registers"
OPT_LEVEL = "ptxas.opt_level"
FILE = "ptxas.control_file"
NAMES = (MAX_REGISTERS, OPT_LEVEL, FILE)
MIN_REGISTERS = 16  # smallest number of registers per thread in the ABI; ptxas raises any lower limit to this number
OPT_LEVELS = (1, 2)  # optimisation levels to try in addition to the default, 3; level 0 is for debugging
_CAPS = 3  # maximum number of register limits to try; each further limit lets more blocks fit on an SM
# Smallest register limit to try, relative to the registers without a limit; lower limits nearly always cause spills.
_SMALLEST_SHARE = 0.5
_GRANULE = 8  # registers per thread are allocated in multiples of this (CUDA Programming Guide, compute capabilities)


@dataclass(frozen=True)
class CompilerControls:
    """Controls of ptxas for one kernel; None means the compiler's default.

    Attributes:
        max_registers: Maximum registers per thread, which overrides launch bounds of the source.
        opt_level: Optimisation level, 0 to 4.
        file: Control file.

    Raises:
        ValueError: If a control is out of range.
    """

    max_registers: int | None = None
    opt_level: int | None = None
    file: ControlFile | None = None

    def __post_init__(self) -> None:
        numbers = {MAX_REGISTERS: (self.max_registers, MIN_REGISTERS, 255), OPT_LEVEL: (self.opt_level, 0, 4)}
        for name, (value, low, high) in numbers.items():
            if value is not None and (type(value) is not int or not low <= value <= high):
                raise ValueError(f"{name} is a number from {low} to {high}, not {value!r:.60}")

    def __bool__(self) -> bool:
        return self != CompilerControls()

    @classmethod
    def of(cls, schedule: Schedule) -> Self:
        """Return the controls in a schedule. Raises ValueError for values that are out of range."""
        values: dict[str, Any] = {name: value for name, value in schedule.items if name in NAMES}
        if not values:
            return cls()
        text = values.get(FILE)
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{FILE} is a text, not {text!r:.60}")
        file = None if text is None else ControlFile.of(text)
        return cls(values.get(MAX_REGISTERS), values.get(OPT_LEVEL), file)

    def on(self, schedule: Schedule) -> Schedule:
        """Return the schedule with its controls replaced by these controls."""
        text = None if self.file is None else self.file.text
        chosen: tuple[Value | None, ...] = (self.max_registers, self.opt_level, text)
        added = tuple((name, value) for name, value in zip(NAMES, chosen, strict=True) if value is not None)
        return Schedule(schedule.template, (*plain(schedule).items, *added))

    @property
    def options(self) -> tuple[str, ...]:
        """Compiler options."""
        options: list[str] = []
        if self.max_registers is not None:  # without this option, launch bounds of the source would override the limit
            options += [f"{PTXAS}--maxrregcount={self.max_registers}", f"{PTXAS}--override-directive-values"]
        if self.opt_level is not None:
            options.append(f"{PTXAS}--opt-level={self.opt_level}")
        if self.file is not None:
            options.append(self.file.option)
        return tuple(options)

    def applied(self, kernel: GeneratedKernel) -> GeneratedKernel:
        """Return the kernel with the compiler options of these controls."""
        if not self:
            return kernel
        return dataclasses.replace(kernel, compile_options=(*kernel.compile_options, *self.options))


def plain(schedule: Schedule) -> Schedule:
    """Return a schedule without its compiler controls.

    Search spaces contain schedules in this form.
    """
    if not has_controls(schedule):
        return schedule
    return Schedule(schedule.template, tuple(item for item in schedule.items if item[0] not in NAMES))


def has_controls(schedule: Schedule) -> bool:
    """Return True if a schedule has compiler controls."""
    return any(name in NAMES for name, _ in reversed(schedule.items))


def shown_value(name: str, value: Value) -> str:
    """Return the value of a decision as text for users: a control file is shown by name and digest."""
    if name != FILE:
        return str(value)
    try:
        return str(ControlFile.of(str(value)))
    except ValueError:
        return "damaged"


def shown_values(schedule: Schedule) -> dict[str, Value]:
    """Return the decisions of a schedule with their values as text for users."""
    return {name: shown_value(name, value) if name == FILE else value for name, value in schedule.items}


def register_caps(kernel: GeneratedKernel, registers: int, shared: int, device: Device) -> tuple[int, ...]:
    """Return register limits at which more blocks fit on a multiprocessor, the largest limit first.

    Args:
        kernel: Kernel without a register limit.
        registers: Registers per thread of the compiled kernel.
        shared: Shared memory of the kernel in bytes.
        device: GPU that runs the kernel.

    Returns:
        At most three limits, all of them at least half of ``registers``. The result is empty if the kernel's options
        already contain a limit. It is also empty for kernels that reallocate registers between warps (``setmaxnreg``),
        because with a limit such a kernel would wait forever for registers that do not exist.
    """
    if any("maxrregcount" in option for option in kernel.compile_options) or _moves_registers(kernel):
        return ()
    caps: list[int] = []
    blocks = occupancy(device, kernel.threads, registers, shared)
    first = (registers - 1) // _GRANULE * _GRANULE
    for cap in range(first, max(MIN_REGISTERS, int(_SMALLEST_SHARE * registers)) - 1, -_GRANULE):
        more = occupancy(device, kernel.threads, cap, shared)
        if more > blocks:
            caps.append(cap)
            blocks = more
        if len(caps) == _CAPS:
            break
    return tuple(caps)


def _moves_registers(kernel: GeneratedKernel) -> bool:
    """Return True if the source, or a header that it includes, uses ``setmaxnreg``."""
    by_file = defaultdict[str, list[str]](list)
    for name, text in kernel.headers.files:
        by_file[name.rpartition("/")[2]].append(text)  # included names may be relative paths
    waiting, seen = [kernel.source], {kernel.source}
    while waiting:
        text = waiting.pop()
        if "setmaxnreg" in text:
            return True
        more = {t for name in included(text) for t in by_file[name.rpartition("/")[2]]} - seen
        seen |= more
        waiting += more
    return False


def neighbours(controls: CompilerControls, caps: Iterable[int], files: Iterable[ControlFile]) -> list[CompilerControls]:
    """Return variants with one changed control: control files first, then register limits, levels and defaults."""
    near = [dataclasses.replace(controls, file=file) for file in files]
    near += [dataclasses.replace(controls, max_registers=cap) for cap in caps]
    near += [dataclasses.replace(controls, opt_level=level) for level in OPT_LEVELS]
    near += [dataclasses.replace(controls, **{name: None}) for name in ("file", "max_registers", "opt_level")]
    return [neighbour for neighbour in dict.fromkeys(near) if neighbour != controls]
