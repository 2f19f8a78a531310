"""The text of PTX as data: modules, functions, instructions, operands, and where in the source they come from."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_BYTES = {
    "pred": 0, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of the source: of the file that ``.file`` named, as ``.loc`` says."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Register:
    """A register, or a special one: ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal. ``bits`` are those of 64-bit two's complement, of an f32 (kind "f") or of an f64 (kind "d")."""

    bits: int
    kind: str = "i"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, a function or a label, plus a number of bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``, or ``[base + offset, {coordinates}]`` of a tensor."""

    base: Register | Symbol | Number
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """``!p``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Minus:
    """``-a``, of a register."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class RegisterPart:
    """``a.b0``, ``a.h10``: bytes or halves of a register."""

    operand: Register
    part: str


@dataclass(frozen=True, slots=True)
class Group:
    """``(a, b)``: results and arguments of a call."""

    items: tuple[Operand, ...]


Operand = Register | Number | Symbol | Address | Vector | Pair | Not | Minus | RegisterPart | Group


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!guard opcode.qualifiers operands;``. ``line`` is that of the PTX text, ``frames`` the innermost first."""

    opcode: str
    qualifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str
    negated: bool
    line: int
    text: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A declaration in ``space`` (global, const, shared, local, param). ``bytes`` is 0 for an array without a length.

    ``initial`` holds numbers and symbols, of ``element_bytes`` each.
    """

    name: str
    space: str
    type: str
    bytes: int
    element_bytes: int
    alignment: int
    initial: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Function:
    """``body`` is empty for one that is only declared. ``labels`` and ``tables`` (of brx.idx) count instructions."""

    name: str
    is_kernel: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    registers: dict[str, int] = field(default_factory=dict)  # bytes by name, 0 for predicates
    variables: tuple[Variable, ...] = ()
    body: tuple[Instruction, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_defined: bool = True
    cluster: tuple[int, ...] = ()  # .reqnctapercluster, three numbers
    blocks_of_sm: int = 1  # .minnctapersm
    most_threads: tuple[int, ...] = ()  # of a block: .maxntid, their product counts
    exact_threads: tuple[int, ...] = ()  # .reqntid, three numbers


@dataclass(frozen=True)
class Module:
    version: str
    target: str
    variables: tuple[Variable, ...]
    functions: dict[str, Function]
    by_llvm: bool = False  # made by LLVM: Triton, clang, numba

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(name for name, f in self.functions.items() if f.is_kernel and f.is_defined)
