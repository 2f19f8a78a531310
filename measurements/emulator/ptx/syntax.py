"""Data classes for PTX: modules, functions, instructions, operands, and their source lines."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_BYTES = {
    "pred": 0, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """A source line: a file of ``.file``, and a line of ``.loc``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Register:
    """A register, or a special register such as ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal. ``bits`` represent a 64-bit two's complement integer, an f32 (kind "f") or an f64 (kind "d")."""

    bits: int
    kind: str = "i"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, a function or a label, plus an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """An address ``[base + offset]``, or a position in a tensor ``[base + offset, {coordinates}]``."""

    base: Register | Symbol | Number
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector ``{a, b}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair ``p|q``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """A negated predicate ``!p``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Minus:
    """A negated register ``-a``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class RegisterPart:
    """Bytes or halves of a register: ``a.b0``, ``a.h10``."""

    operand: Register
    part: str


@dataclass(frozen=True, slots=True)
class Group:
    """The results or the arguments of a call: ``(a, b)``."""

    items: tuple[Operand, ...]


Operand = Register | Number | Symbol | Address | Vector | Pair | Not | Minus | RegisterPart | Group


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction ``@!guard opcode.qualifiers operands;``.

    ``line`` is its line in the PTX text. ``frames`` are source lines, the innermost first.
    """

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
    """A variable in the state space ``space`` (global, const, shared, local, param).

    ``bytes`` is 0 for an array without a length. ``initial`` has the initial elements: numbers or symbols.
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
    """A function. ``body`` is empty for a declaration.

    ``labels`` and ``tables`` (of brx.idx) contain indices of instructions.
    """

    name: str
    is_kernel: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    registers: dict[str, int] = field(default_factory=dict)  # width in bytes by name; 0 for predicates
    variables: tuple[Variable, ...] = ()
    body: tuple[Instruction, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_defined: bool = True
    cluster: tuple[int, ...] = ()  # .reqnctapercluster, three numbers
    blocks_of_sm: int = 1  # .minnctapersm
    most_threads: tuple[int, ...] = ()  # .maxntid of a block; only the product matters
    exact_threads: tuple[int, ...] = ()  # .reqntid, three numbers


@dataclass(frozen=True)
class Module:
    """A parsed PTX module."""

    version: str
    target: str
    variables: tuple[Variable, ...]
    functions: dict[str, Function]
    by_llvm: bool = False  # True if LLVM generated the PTX (Triton, clang, numba)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the module's kernels."""
        return tuple(name for name, f in self.functions.items() if f.is_kernel and f.is_defined)
