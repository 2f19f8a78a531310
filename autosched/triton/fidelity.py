"""Fidelity report of a verification: exact and approximate instructions, and completely or partly emulated launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from measurements.emulator.ptx.parser import parse

if TYPE_CHECKING:
    from autosched.triton.session import Session, VerifiedLaunch

# PTX specifies only an error bound for the results of these instructions (docs/explanation/emulator.md, Limits).
_BOUNDED_OPCODES = ("mma", "wmma", "wgmma", "ex2", "lg2", "sin", "cos", "tanh", "tcgen05")
_BOUNDED_QUALIFIERS = ("approx", "full")


@dataclass(frozen=True)
class Fidelity:
    """Fidelity of all launches of a session.

    ``exact`` and ``bounded`` list the PTX instructions of the kernels, by opcode and qualifiers. PTX defines the exact
    result of ``exact`` instructions, but only an error bound for ``bounded`` instructions. ``unsupported`` describes
    each unsupported feature with its line. ``grids`` lists the grids of each kernel. ``not_run`` lists the launches of
    which only some blocks ran. ``sizes`` lists the sizes chosen by ``Session.at_sizes``.
    """

    device: str
    exact: tuple[str, ...]
    bounded: tuple[str, ...]
    unsupported: tuple[str, ...]
    runs: tuple[str, ...]
    grids: dict[str, tuple[tuple[int, int, int], ...]]
    launches: int
    not_run: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the report as text."""
        grids = "; ".join(
            f"{kernel}: {', '.join('x'.join(map(str, grid)) for grid in sizes[:6])}"
            + (f" and {len(sizes) - 6} more" if len(sizes) > 6 else "")
            for kernel, sizes in self.grids.items()
        )
        return [
            f"device: {self.device}; {self.launches} launches of {len(self.grids)} kernels",
            f"instructions: {len(self.exact)} exact, {len(self.bounded)} within the error that PTX allows"
            + (f" ({', '.join(self.bounded)})" if self.bounded else "")
            + f", {len(self.unsupported)} not supported",
            *(f"  {reason}" for reason in self.unsupported),
            f"runs of each launch: {', '.join(self.runs)}",
            f"grids: {grids}",
            *([f"sizes: {'; '.join(self.sizes)}"] if self.sizes else ()),
            *(f"blocks: {text}" for text in self.not_run),
            "not covered: "
            + ("blocks that did not run, " if self.not_run else "")
            + "other sizes, other values, other orders of blocks and threads, time, and machine code",
        ]


def fidelity_of(session: Session) -> Fidelity:
    """Return the fidelity report of a session's launches."""
    exact: dict[str, None] = {}
    bounded: dict[str, None] = {}
    unsupported: dict[str, None] = {}
    grids: dict[str, dict[tuple[int, int, int], None]] = {}
    runs: dict[str, None] = {}
    for ptx in dict.fromkeys(launch.ptx for launch in session.launches):
        for function in parse(ptx).functions.values():
            for instruction in function.body:
                name = ".".join((instruction.opcode, *instruction.qualifiers))
                (bounded if _is_bounded(instruction.opcode, instruction.qualifiers) else exact)[name] = None
    for launch in session.launches:
        grids.setdefault(launch.kernel, {})[launch.grid] = None
        runs |= dict.fromkeys(name for name, _ in launch.runs)
        if launch.emulation.status == "unsupported":
            unsupported[launch.emulation.reason] = None
    return Fidelity(
        session.device.name,
        tuple(exact),
        tuple(sorted(bounded)),
        tuple(unsupported),
        tuple(runs),
        {kernel: tuple(sizes) for kernel, sizes in grids.items()},
        len(session.launches),
        _not_run(session.launches),
        tuple(dict.fromkeys(launch.size for launch in session.launches if launch.size)),
    )


def _not_run(launches: Sequence[VerifiedLaunch]) -> tuple[str, ...]:
    some: dict[str, dict[str, None]] = {}
    for launch in launches:
        if launch.left_out:
            some.setdefault(launch.kernel, {})[f"{launch.blocks - launch.left_out} of {launch.blocks}"] = None
    return tuple(f"{kernel}: {', '.join(numbers)}" for kernel, numbers in some.items())


def _is_bounded(opcode: str, qualifiers: Sequence[str]) -> bool:
    if opcode in ("mma", "wmma", "wgmma") and "s32" in qualifiers:
        return False  # integer matrix products are exact
    if opcode in ("wgmma", "wmma"):
        return any(q.startswith("mma") for q in qualifiers)
    return opcode in _BOUNDED_OPCODES or any(q in _BOUNDED_QUALIFIERS for q in qualifiers)
