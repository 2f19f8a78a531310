"""Options of ``autosched.emulate`` as one object, which is validated on construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from autosched.verify.emulate.launch_memory import size_of
from autosched.verify.launch_plan import THOROUGH, TIME_LIMIT, TWO_ORDERS, LaunchPlan
from measurements.emulator import Order, Suppression
from search_spaces.operators.problem import whole_number
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule

Size = int | Sequence[int]

_OF_LAUNCHES = (
    "kernel", "grid", "block", "cluster", "shared_bytes", "cooperative", "dependent", "outputs", "aliases", "symbols",
    "headers", "options",
)  # fmt: skip
_OF_TILE_PROGRAMS = ("schedule",)


@dataclass(frozen=True, kw_only=True)
class EmulatedLaunchOptions:
    """Options of ``autosched.emulate``.

    Attributes:
        kernel: Name of the ``__global__`` function, or a name expression (``"scale<float, 4>"``). For PTX: the mangled
            name, the signature, or the name in C++. Default: the only kernel.
        grid: One to three sizes, in blocks. Not allowed for a tile program, because its arrays determine the launch.
        block: One to three sizes, in threads. Default: the block of the Triton kernel.
        cluster: One to three sizes of a cluster, in blocks. Default: ``__cluster_dims__``.
        shared_bytes: Dynamic shared memory of a block. Default: the amount that the Triton kernel needs, or 0.
        cooperative: Cooperative launch: all blocks run at the same time, as ``grid.sync()`` needs. All blocks must fit
            on ``device`` at once.
        dependent: Programmatic stream serialization: the launch may start before its predecessor in the stream has
            ended, so an access without a preceding ``griddepcontrol.wait`` is a race. True: the predecessor may write
            any array. Otherwise: the positions of the arrays that it may write.
        outputs: Positions of arrays that the kernel fills. Reading an element before it is written is a finding, and so
            is an element that is never written.
        aliases: ``{3: 0}`` also passes the array of argument 0 as argument 3, for a kernel that works in place. ``{3:
            (0, 64)}`` passes it from byte 64 on. The original argument 3 is ignored.
        symbols: Contents of ``__device__``, ``__constant__`` and ``__managed__`` variables before the launch, by name.
            None keeps a variable's initial value. The result has the final contents of these variables as ``symbols``.
        headers: Texts of further headers, by include name. CUDA's own headers are taken from an installed toolkit or
            the extras `cuda12` and `cuda13`.
        options: NVRTC options.
        time_limit: CPU seconds that one run of all ``launches`` may take, without compilation.
        perturb: If True, approximate instructions (``ex2.approx``, ``rcp.approx``) have the largest error that the PTX
            ISA allows.
        order: Order of blocks. An order with a seed also randomises warps, lanes and atomics. A kernel that lacks
            synchronisation may be right in one order and wrong in another. Default: one ascending and one random run.
            With ``full``, ``order`` is the first of all orders.
        launches: Number of back-to-back launches on the same memory; before each, ``outputs`` are poisoned again.
        full: If True, the kernel also runs in every order, in two launches on the same memory, and with the largest
            errors of approximate instructions.
        suppressions: Expected findings (``measurements.emulator.Suppression``).
        device: GPU that a tile program is compiled for, and that a cooperative launch must fit on. Default: "h200".
        schedule: Schedule of a tile program, or its values by name. Default: the time model's choice.

    Raises:
        ValueError: An option is invalid.
    """

    kernel: str = ""
    grid: Size | None = None
    block: Size | None = None
    cluster: Size | None = None
    shared_bytes: int | None = None
    cooperative: bool = False
    dependent: bool | Sequence[int] = False
    outputs: Sequence[int] = ()
    aliases: Mapping[int, int | tuple[int, int]] | None = None
    symbols: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    options: Sequence[str] = ()
    time_limit: float = TIME_LIMIT
    perturb: bool = False
    order: Order | None = None
    launches: int = 1
    full: bool = False
    suppressions: Sequence[Suppression] = ()
    device: str = ""
    schedule: Schedule | Mapping[str, int | str] | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "launches", whole_number("launches", self.launches, 1))
        if self.shared_bytes is not None:
            object.__setattr__(self, "shared_bytes", whole_number("shared_bytes", self.shared_bytes, 0))
        for size in (self.grid, self.block, self.cluster):
            if size is not None:
                size_of(size)
        if self.cooperative and self.dependent is not False:
            raise ValueError("cooperative and dependent exclude each other: set only one")
        _ = self.plan  # raises ValueError for invalid sizes

    @cached_property
    def plan(self) -> LaunchPlan:
        """Plan of the runs of the launch."""
        plan = replace(THOROUGH, perturb=True) if self.full else TWO_ORDERS
        plan = replace(
            plan, time_limit=self.time_limit, launches=self.launches, perturb_all=self.perturb,
            suppressions=tuple(self.suppressions),
        )  # fmt: skip
        return plan if self.order is None else plan.beginning_with(self.order, alone=not self.full)

    def check_tile_program(self) -> None:
        """Raise ValueError for options that do not apply to tile programs."""
        if names := self._not_default(_OF_LAUNCHES):
            raise ValueError(f"a tile program's arrays determine its launch: omit {', '.join(names)}")

    def check_launch(self) -> None:
        """Raise ValueError for options that only apply to tile programs, and for a missing grid."""
        if self.device and not self.cooperative:
            raise ValueError("device applies only to tile programs and cooperative launches: omit it")
        if names := self._not_default(_OF_TILE_PROGRAMS):
            raise ValueError(f"options that apply only to tile programs: omit {', '.join(names)}")
        if self.grid is None:
            raise ValueError("grid is missing: specify the number of blocks, for example grid=108")

    def _not_default(self, names: Sequence[str]) -> list[str]:
        values = {name: getattr(self, name) for name in names}
        return [n for n, v in values.items() if v not in (None, False) and (not isinstance(v, Sized) or len(v) > 0)]
