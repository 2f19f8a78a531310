"""Source lines of compiled code at which the order of floating-point sums may depend on the batch size.

Two kinds of PTX instructions are found. Floating-point atomics add in the order in which blocks run. Branches are
reported if their condition depends on the number of blocks, or on a parameter that differs between batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from autosched.verify.verdict import Cause
from measurements.emulator.ptx.parser import parse
from measurements.emulator.ptx.syntax import (
    Address,
    Function,
    Group,
    Instruction,
    Minus,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    RegisterPart,
    Symbol,
    Vector,
)

_FLOATS = frozenset(("f16", "f16x2", "bf16", "bf16x2", "f32", "f64"))
_STORES = (
    "st",
    "red",
    "bra",
    "brx",
    "ret",
    "exit",
    "bar",
    "barrier",
    "membar",
    "fence",
    "cp",
)  # opcodes whose first operand is a source or a label, not a destination register


class BatchSources(NamedTuple):
    """Values that differ between the launches of two batches.

    Attributes:
        parameters: Names of the kernel parameters whose values differ, by position.
        grid: True if the number of blocks differs.
        position: True if different blocks may compute the same row.
    """

    parameters: Mapping[int, str]
    grid: bool = False
    position: bool = False


def atomic_sums(ptx: str, kernel: str = "") -> list[Cause]:
    """Return the source lines of floating-point atomic additions in a kernel and its device functions."""
    module = parse(ptx)
    causes = []
    for function in module.functions.values():
        if function.is_kernel and function.name != _kernel(module, kernel).name:
            continue
        for instruction in function.body:
            adds = instruction.opcode in ("atom", "red") and "add" in instruction.qualifiers
            if adds and _FLOATS & set(instruction.qualifiers):
                text = "a floating-point atomic adds in the order in which blocks or threads run"
                causes.append(_cause(instruction, text))
    return list(dict.fromkeys(causes))


def _kernel(module: Module, name: str) -> Function:
    return module.functions[name if name in module.functions else module.kernels[0]]


def batch_branches(ptx: str, kernel: str, sources: BatchSources) -> list[Cause]:
    """Return the source lines of branches that depend on the batch, without duplicates.

    Branches of loops come first, because loops often compute sums.

    Args:
        ptx: Text of the module.
        kernel: Name of the kernel; "" for the only one.
        sources: Values that the batch changes.
    """
    function = _kernel(parse(ptx), kernel)
    parameters = function.parameters
    names = {parameters[k].name: name for k, name in sources.parameters.items() if k < len(parameters)}
    special = {"%nctaid.": "the number of blocks"} if sources.grid else {}
    special |= {"%ctaid.": "the index of the block"} if sources.position else {}
    tainted = _tainted(function, names, special)
    loops: list[Cause] = []
    other_causes: list[Cause] = []
    for at, instruction in enumerate(function.body):
        if instruction.opcode not in ("bra", "brx") or instruction.guard not in tainted:
            continue
        targets = [function.labels.get(o.name, at + 1) for o in instruction.operands if isinstance(o, Symbol)]
        loop = any(target <= at for target in targets)
        text = f"{'a loop' if loop else 'a branch'} depends on {tainted[instruction.guard]}"
        (loops if loop else other_causes).append(_cause(instruction, text))
    return list(dict.fromkeys((*loops, *other_causes)))


def _tainted(function: Function, names: Mapping[str, str], special: Mapping[str, str]) -> dict[str, str]:
    """Map each register that depends on a given parameter or special register to a description of that source."""
    tainted: dict[str, str] = {}

    def source(name: str) -> str:
        own = next((text for prefix, text in special.items() if name.startswith(prefix)), "")
        return own or tainted.get(name) or names.get(name, "")

    changed = True
    # repeat until nothing changes, because in a loop a later instruction may set the registers of an earlier one
    while changed:
        changed = False
        for instruction in function.body:
            written, read = _written_and_read(instruction)
            cause = next((text for name in read if (text := source(name))), "")
            for name in written:
                if cause and name not in tainted:
                    tainted[name], changed = cause, True
    return tainted


def _written_and_read(instruction: Instruction) -> tuple[Collection[str], Sequence[str]]:
    stores = instruction.opcode in _STORES or not instruction.operands
    first = () if stores else tuple(_names(instruction.operands[0]))
    rest = instruction.operands if stores else instruction.operands[1:]
    guard = (instruction.guard,) if instruction.guard else ()
    return first, (*(name for operand in rest for name in _names(operand)), *guard)


def _names(operand: Operand) -> Iterator[str]:
    match operand:
        case Register(name) | Symbol(name):
            yield name
        case Not(inner) | Minus(inner) | RegisterPart(inner):
            yield from _names(inner)
        case Pair(first, second):
            yield from _names(first)
            yield from _names(second)
        case Vector(items) | Group(items):
            for item in items:
                yield from _names(item)
        case Address(base):
            yield from _names(base)
        case _:
            return


def _cause(instruction: Instruction, text: str) -> Cause:
    frame = instruction.frames[0] if instruction.frames else None
    return Cause("" if frame is None else frame.file, 0 if frame is None else frame.line, text)
