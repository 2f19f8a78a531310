"""Declarations of variables, registers and parameters (PTX ISA, chapter 5)."""

from __future__ import annotations

import re

from measurements.emulator.ptx.cursor import PtxError
from measurements.emulator.ptx.operands import negative, number
from measurements.emulator.ptx.syntax import TYPE_BYTES, Operand, Symbol, Variable

VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(global|const|shared|local|param|reg)\b"
    r"((?:\s*\.attribute\s*\([^)]*\)|\s*\.\w+(?:\s+\d+)?)*)\s*([^;]*?)$",
    re.DOTALL,
)
PARAMETER = re.compile(r"\.(param|reg)\b((?:\s*\.\w+(?:\s+\d+)?)*)\s+([%$\w]+)\s*((?:\[\s*\d*\s*\])*)")


def type_of(qualifiers: str) -> str:
    """Return the type among ``.align 4 .b8``."""
    return next((q for q in re.findall(r"\.(\w+)", qualifiers) if q in TYPE_BYTES), "b8")


def parameter(found: re.Match[str]) -> Variable:
    """Return what PARAMETER has found."""
    kind = type_of(found[2])
    element = TYPE_BYTES[kind]
    # ``.ptr .align 16`` speaks of what a pointer points to.
    own = found[2].split(".ptr")[0]
    return Variable(found[3], found[1], kind, element * _elements(found[4]), element, _alignment(own, element))


def variables(found: re.Match[str]) -> list[Variable]:
    """Return what VARIABLE has found. Raises PtxError."""
    kind = type_of(found[2])
    element = max(TYPE_BYTES[kind], 1)
    vector = 4 if re.search(r"\.v4\b", found[2]) else 2 if re.search(r"\.v2\b", found[2]) else 1
    declared, _, value = found[3].partition("=")
    made = []
    for one in declared.split(","):
        name = re.match(r"\s*([%$\w]+)\s*((?:\[\s*\d*\s*\])*)", one)
        if name is None:
            raise PtxError(f"a variable without a name: {one.strip()[:60]}")
        count = vector * _elements(name[2])
        initial = tuple(_initial(v) for v in re.findall(r"[^{},\s][^{},]*", value)) if value.strip() else ()
        if not count and initial:
            count = len(initial)
        made.append(Variable(name[1], found[1], kind, element * count, element, _alignment(found[2], element), initial))
    return made


def _elements(extents: str) -> int:
    """Of ``[4][3]``; 0 where one is left out."""
    count = 1
    for n in re.findall(r"\[\s*(\d*)\s*\]", extents):
        count *= int(n or 0)
    return count


def _alignment(text: str, element: int) -> int:
    found = re.search(r"\.align\s+(\d+)", text)
    return int(found[1]) if found else max(element, 1)


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
