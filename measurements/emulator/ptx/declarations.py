"""Declarations of variables, registers and parameters (PTX ISA, chapter 5)."""

from __future__ import annotations

import re

from measurements.emulator.ptx.cursor import PtxError
from measurements.emulator.ptx.operands import negative, number
from measurements.emulator.ptx.syntax import TYPE_BYTES, Operand, Symbol, Variable

# The largest limits of any architecture: shared memory per block, local memory per thread, constant banks, and kernel
# parameters (PTX ISA, "State Spaces"; CUDA C++ Programming Guide, "Technical Specifications").
MOST_LOCAL = 512 << 10
_MOST_BYTES = {"shared": 228 << 10, "local": MOST_LOCAL, "const": 11 << 16, "param": 32764, "global": 1 << 40}
_MOST_ALIGNMENT = 1 << 16
# Limits of this parser, per module. Compiler-generated PTX does not reach them.
MOST_REGISTERS = 1 << 20
MOST_INITIAL = 1 << 22
MOST_FUNCTIONS = 1 << 16

VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(global|const|shared|local|param|reg)\b"
    r"((?:\s*\.attribute\s*\([^)]*\)|\s*\.\w+(?:\s+\d+)?)*)\s*([^;]*?)$",
    re.DOTALL,
)
PARAMETER = re.compile(r"\.(param|reg)\b((?:\s*\.\w+(?:\s+\d+)?)*)\s+([%$\w]+)\s*((?:\[\s*\d*\s*\])*)")


def type_of(qualifiers: str) -> str:
    """Return the type in qualifiers such as ``.align 4 .b8``."""
    return next((q for q in re.findall(r"\.(\w+)", qualifiers) if q in TYPE_BYTES), "b8")


def parameter(match: re.Match[str]) -> Variable:
    """Return the parameter in a match of PARAMETER. Raises PtxError."""
    kind = type_of(match[2])
    element = TYPE_BYTES[kind]
    # ``.ptr .align 16`` describes the pointed-to memory.
    own = match[2].split(".ptr")[0]
    alignment = _alignment(own, element)
    return _checked(Variable(match[3], match[1], kind, element * _elements(match[4]), element, alignment))


def variables(match: re.Match[str]) -> list[Variable]:
    """Return the variables in a match of VARIABLE. Raises PtxError."""
    kind = type_of(match[2])
    element = max(TYPE_BYTES[kind], 1)
    vector = 4 if re.search(r"\.v4\b", match[2]) else 2 if re.search(r"\.v2\b", match[2]) else 1
    declared, _, value = match[3].partition("=")
    variables: list[Variable] = []
    initial = _initials(value)
    for one in declared.split(","):
        name = re.match(r"\s*([%$\w]+)\s*((?:\[\s*\d*\s*\])*)", one)
        if name is None:
            raise PtxError(f"a variable without a name: {one.strip()[:60]}")
        count = vector * _elements(name[2])
        if not count and initial:
            count = len(initial)
        alignment = _alignment(match[2], element)
        variables.append(_checked(Variable(name[1], match[1], kind, element * count, element, alignment, initial)))
    return variables


def _checked(variable: Variable) -> Variable:
    """Return ``variable``. Raises PtxError if no GPU has room for it."""
    most = _MOST_BYTES.get(variable.space)
    if most is not None and variable.bytes > most:
        raise PtxError(
            f"{variable.name} has {variable.bytes:,} bytes, but {variable.space} memory has at most {most:,}"
        )
    alignment = variable.alignment
    if alignment > _MOST_ALIGNMENT or alignment & (alignment - 1):
        raise PtxError(
            f"{variable.name} has the invalid alignment {alignment:,}: use a power of two up to {_MOST_ALIGNMENT:,}"
        )
    if len(variable.initial) * max(variable.element_bytes, 1) > max(variable.bytes, 1):
        raise PtxError(f"{variable.name} has {variable.bytes:,} bytes, but more initial values")
    return variable


def _initials(text: str) -> tuple[Operand, ...]:
    """Return the initial values after ``=``. Equal texts are parsed once. Raises PtxError."""
    known: dict[str, Operand] = {}
    values: list[Operand] = []
    for match in re.finditer(r"[^{},\s][^{},]*", text):
        value = known.get(match[0])
        if value is None:
            value = known[match[0]] = _initial(match[0])
        values.append(value)
        if len(values) > MOST_INITIAL:
            raise PtxError(f"more than {MOST_INITIAL:,} initial values of one variable")
    return tuple(values)


def _elements(extents: str) -> int:
    """Return the number of elements of ``[4][3]``, or 0 if an extent is omitted."""
    count = 1
    for n in re.findall(r"\[\s*(\d*)\s*\]", extents):
        count *= int(n or 0)
    return count


def _alignment(text: str, element: int) -> int:
    match = re.search(r"\.align\s+(\d+)", text)
    return int(match[1]) if match else max(element, 1)


def _initial(text: str) -> Operand:
    text = text.strip()
    generic = re.fullmatch(r"generic\(\s*([^)]*?)\s*\)\s*(?:\+\s*(\d+))?", text)
    if generic:
        return Symbol(generic[1], int(generic[2] or 0))
    if text[0] == "-":
        return negative(number(text[1:]))
    if text[0].isdigit():
        return number(text)
    name, _, offset = text.partition("+")
    return Symbol(name.strip(), int(offset or 0))
