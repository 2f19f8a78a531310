"""Mutants of PTX: small edits of one instruction, in a program's text or in the ``asm`` of a header of ``ptx/``.

An instruction is left out, is another one, has a number that is off by one, an operand in the wrong place, the other
predicate, a narrower scope. What changes no value by the PTX ISA is not made: cache hints, ``.s32`` for ``.u32`` where
both are the same bits, a wider scope, another number for a barrier, the sign of an index that is never negative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.mutants import Mutant

# One opcode, or one qualifier of it, for another.
_OPCODES = {
    "add": ("sub",),
    "sub": ("add",),
    "mul": (),
    "min": ("max",),
    "max": ("min",),
    "and": ("or",),
    "or": ("and", "xor"),
    "xor": ("or",),
    "shl": ("shr",),
    "div": ("rem",),
    "ex2": ("lg2",),
    "lg2": ("ex2",),
    "rsqrt": ("sqrt",),
    "rcp": ("sqrt",),
    "neg": ("abs",),
}
_QUALIFIERS = {
    "lt": ("le", "ge"),
    "le": ("lt", "gt"),
    "gt": ("ge", "le"),
    "ge": ("gt", "lt"),
    "eq": ("ne",),
    "ne": ("eq",),
    "ltu": ("lt", "geu"),
    "leu": ("le", "gtu"),
    "gtu": ("gt", "leu"),
    "geu": ("ge", "ltu"),
    "num": ("nan",),
    "nan": ("num",),
    "bfly": ("down",),
    "down": ("up",),
    "idx": ("bfly",),
    "NaN": ("",),
    "gpu": ("cta",),
    "trans": ("",),
    "x4": (),
    "hi": ("lo",),
    "lo": ("hi",),
    "row": ("col",),
    "col": ("row",),
    "sat": ("",),
    "rm": ("rp",),
}
_PAIRS = (("f16.f16", "bf16.bf16"), ("bf16.bf16", "f16.f16"), (".rn.f16.", ".rn.bf16."), (".rn.bf16.", ".rn.f16."))
_FLOAT_ONLY = ("ex2", "lg2", "rsqrt", "rcp")  # whose replacements take their qualifiers
_COMMUTES = ("add", "mul", "min", "max", "and", "or", "xor", "mad", "fma", "setp.eq", "setp.ne", "mul24")
_NOT_LEFT_OUT = ("ret", "exit", "bra", "ld.param")  # a label needs its jump
_NUMBER = re.compile(r"(?<![\w.%$])(-?\d+)(?![\w.])")
_HEX = re.compile(r"(?<![\w.%$])0x([0-9a-fA-F]+)\b")
_ADDRESS = re.compile(r"\[(?P<base>%?[\w$]+)(?:\+(?P<offset>-?\d+))?\]")
_SPLIT = re.compile(r"(?P<guard>@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)(?P<operands>[^;]*);")


@dataclass(frozen=True)
class Edit:
    """``kind`` says what is wrong with the instruction ``new``; "" is one that is left out."""

    kind: str
    new: str


def edits_of(instruction: str) -> Iterator[Edit]:
    """Every edit of one instruction, which ends with its semicolon."""
    found = _SPLIT.fullmatch(instruction)
    if found is None:
        return
    guard, opcode, operands = found["guard"] or "", found["opcode"], found["operands"]
    head, *rest = opcode.split(".")
    if not opcode.startswith(_NOT_LEFT_OUT):
        yield Edit("instruction left out", "")
    if guard:
        flipped = guard.replace("@!", "@") if guard.startswith("@!") else guard.replace("@", "@!")
        yield Edit("predicate", f"{flipped}{opcode}{operands};")
        yield Edit("predicate", f"{opcode}{operands};")
    if opcode.startswith("ld.param"):
        return
    for other in _OPCODES.get(head, ()):
        if other == "rem" and rest[-1].startswith("f"):
            continue
        if other == "shr":
            rest = [rest[-1].replace("b", "u")]
        yield Edit("opcode", f"{guard}{'.'.join((other, *rest))}{operands};")
    if head == "shr":
        yield Edit("opcode", f"{guard}shl.b{rest[-1][1:]}{operands};")
    for i, qualifier in enumerate(rest):
        for other in _QUALIFIERS.get(qualifier, ()):
            if head in ("bar", "barrier") or (head == "mul" and rest[-1].startswith("f")):
                continue
            parts = (head, *rest[:i], *((other,) if other else ()), *rest[i + 1 :])
            yield Edit("qualifier", f"{guard}{'.'.join(parts)}{operands};")
    if head == "ldmatrix" and "trans" not in rest:
        yield Edit("qualifier", f"{guard}{opcode.replace('.shared', '.trans.shared')}{operands};")
    for old, new in _PAIRS:
        if old in opcode:
            yield Edit("type", f"{guard}{opcode.replace(old, new)}{operands};")
    sign = head == "shr" and operands.endswith(", 31")
    if head not in ("bar", "barrier") and not sign:
        yield from _edits_of_numbers(guard + opcode, operands)
    yield from _edits_of_operands(guard + opcode, opcode, operands)


def _edits_of_numbers(front: str, operands: str) -> Iterator[Edit]:
    for at in _NUMBER.finditer(operands):
        if operands[at.start() - 1 : at.start()] == "+":
            continue  # of an address
        for other in (int(at[1]) + 1, int(at[1]) - 1):
            if other >= 0 or int(at[1]) < 0:
                yield Edit("number", f"{front}{operands[: at.start()]}{other}{operands[at.end() :]};")
    for at in _HEX.finditer(operands):
        yield Edit("number", f"{front}{operands[: at.start()]}{int(at[1], 16) >> 1:#x}{operands[at.end() :]};")
    for at in _ADDRESS.finditer(operands):
        offset = int(at["offset"] or 0) + 4
        yield Edit("address", f"{front}{operands[: at.start()]}[{at['base']}+{offset}]{operands[at.end() :]};")


def _edits_of_operands(front: str, opcode: str, operands: str) -> Iterator[Edit]:
    """Sources that change places; elements of a vector that do."""
    parts = [part.strip() for part in re.split(r",(?![^{\[]*[}\]])", operands)]
    blank = operands[: len(operands) - len(operands.lstrip())]
    if len(parts) >= 3 and not opcode.startswith((*_COMMUTES, "bar", "st", "cp", "atom", "wmma.store", "shfl")):
        a, b = parts[1], parts[2]
        if a != b and a[0] == "%" and b[0] == "%":
            yield Edit("operand", f"{front}{blank}{', '.join((parts[0], b, a, *parts[3:]))};")
    for i, part in enumerate(parts):
        if part.startswith("{"):
            inner = [x.strip() for x in part[1:-1].split(",")]
            if len(inner) > 1 and inner[0] != inner[1]:
                swapped = "{" + ", ".join((inner[1], inner[0], *inner[2:])) + "}"
                yield Edit("operand", f"{front}{blank}{', '.join((*parts[:i], swapped, *parts[i + 1 :]))};")


_LINE = re.compile(r"^\t(?P<instruction>(?:@!?%\w+\s+)?[a-z][\w.:]*(?:\s[^;\n]*)?;)$", re.MULTILINE)
_ASM = re.compile(r'asm(?: volatile)?\(\s*(?P<texts>"[^"]*"(?:\s*"[^"]*")*)(?=\s*[:)])')


def mutants_of_ptx(name: str, text: str) -> Iterator[Mutant]:
    """Every mutant of a program's text; ``name`` says of which."""
    body = text[: text.find("\n\t.section")] if "\n\t.section" in text else text
    line, counted = 1, 0
    for found in _LINE.finditer(body):
        line += text.count("\n", counted, found.start("instruction"))
        counted = found.start("instruction")
        for edit in edits_of(found["instruction"]):
            yield Mutant(name, line, edit.kind, found.start("instruction"), found["instruction"], edit.new)


def mutants_of_asm(header: str, text: str) -> Iterator[Mutant]:
    """Every mutant of the inline PTX of a header, where an instruction is written out and no macro puts it together."""
    for found in _ASM.finditer(text):
        line = text.count("\n", 0, found.start("texts")) + 1
        instruction = "".join(re.findall(r'"([^"]*)"', found["texts"]))
        for edit in edits_of(instruction):
            yield Mutant(header, line, edit.kind, found.start("texts"), found["texts"], f'"{edit.new}"')
