"""Mutants of PTX: small edits of an instruction, in a program's text or in an ``asm`` of a header in ``ptx/``.

An instruction is removed or replaced, a number is off by one, operands are swapped, a predicate is inverted, or a scope
is narrower. Edits that have no effect are excluded: cache hints, ``.s32`` for ``.u32`` if the bits are equal, a wider
scope, another barrier number, or another number in a shift by 31 (the sign of an index that is never negative).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.emulator.mutants import Mutant

# Replacements of opcodes, and of qualifiers.
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
_FLOAT_ONLY = ("ex2", "lg2", "rsqrt", "rcp")  # opcodes that may be replaced without changing the qualifiers
_COMMUTES = ("add", "mul", "min", "max", "and", "or", "xor", "mad", "fma", "setp.eq", "setp.ne", "mul24")
_NOT_LEFT_OUT = ("ret", "exit", "bra", "ld.param")  # opcodes of instructions that no mutant removes
_NUMBER = re.compile(r"(?<![\w.%$])(-?\d+)(?![\w.])")
_HEX = re.compile(r"(?<![\w.%$])0x([0-9a-fA-F]+)\b")
_ADDRESS = re.compile(r"\[(?P<base>%?[\w$]+)(?:\+(?P<offset>-?\d+))?\]")
_SPLIT = re.compile(r"(?P<guard>@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)(?P<operands>[^;]*);")


@dataclass(frozen=True)
class Edit:
    """An edit of an instruction: ``new`` is its new text ("" if it is removed), and ``kind`` the kind of the fault."""

    kind: str
    new: str


def edits_of(instruction: str) -> Iterator[Edit]:
    """Return every edit of one instruction. The text ``instruction`` includes the semicolon."""
    match = _SPLIT.fullmatch(instruction)
    if match is None:
        return
    guard, opcode, operands = match["guard"] or "", match["opcode"], match["operands"]
    head, *modifiers = opcode.split(".")
    if not opcode.startswith(_NOT_LEFT_OUT):
        yield Edit("instruction left out", "")
    if guard:
        flipped = guard.replace("@!", "@") if guard.startswith("@!") else guard.replace("@", "@!")
        yield Edit("predicate", f"{flipped}{opcode}{operands};")
        yield Edit("predicate", f"{opcode}{operands};")
    if opcode.startswith("ld.param"):
        return
    for other in _OPCODES.get(head, ()):
        if other == "rem" and modifiers[-1].startswith("f"):
            continue
        if other == "shr":
            modifiers = [modifiers[-1].replace("b", "u")]
        yield Edit("opcode", f"{guard}{'.'.join((other, *modifiers))}{operands};")
    if head == "shr":
        yield Edit("opcode", f"{guard}shl.b{modifiers[-1][1:]}{operands};")
    for i, qualifier in enumerate(modifiers):
        for other in _QUALIFIERS.get(qualifier, ()):
            if head in ("bar", "barrier") or (head == "mul" and modifiers[-1].startswith("f")):
                continue
            parts = (head, *modifiers[:i], *((other,) if other else ()), *modifiers[i + 1 :])
            yield Edit("qualifier", f"{guard}{'.'.join(parts)}{operands};")
    if head == "ldmatrix" and "trans" not in modifiers:
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
            continue  # the number is the offset of an address
        for other in (int(at[1]) + 1, int(at[1]) - 1):
            if other >= 0 or int(at[1]) < 0:
                yield Edit("number", f"{front}{operands[: at.start()]}{other}{operands[at.end() :]};")
    for at in _HEX.finditer(operands):
        yield Edit("number", f"{front}{operands[: at.start()]}{int(at[1], 16) >> 1:#x}{operands[at.end() :]};")
    for at in _ADDRESS.finditer(operands):
        offset = int(at["offset"] or 0) + 4
        yield Edit("address", f"{front}{operands[: at.start()]}[{at['base']}+{offset}]{operands[at.end() :]};")


def _edits_of_operands(front: str, opcode: str, operands: str) -> Iterator[Edit]:
    """Yield edits that swap source operands, or elements of a vector."""
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
_ASM = re.compile(r"\basm(?P<volatile> volatile)?\(")
_PIECE = re.compile(r'"(?P<text>(?:[^"\\\n]|\\.)*)"|(?P<colon>:)|(?P<open>\()|(?P<close>\))|(?P<word>\w+)')
_MACRO_ARGUMENT = re.compile(r'"(?P<text>[^"\n]*%\d[^"\n]*)"(?=[,)])')
_INSTRUCTION = re.compile(r"(?:@!?%?\w+\s+)?[a-z][\w.:]*(?:\s[^;]*?)?;")
_OPERAND = re.compile(r'"(?P<constraint>[+=]?\w+)"\s*(?P<value>\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))')
_PAIR = re.compile(r"(%\d+), (%\d+)")
_WORD = re.compile(r"\.(\w+)")


def mutants_of_ptx(name: str, text: str) -> Iterator[Mutant]:
    """Return every mutant of the program named ``name``, whose text is ``text``."""
    line, counted = 1, 0
    for start, instruction in _instructions(text):
        line += text.count("\n", counted, start)
        counted = start
        for edit in edits_of(instruction):
            yield Mutant(name, line, edit.kind, start, instruction, edit.new)


def drawn_of_ptx(name: str, text: str, rng: np.random.Generator) -> Iterator[Mutant]:
    """Yield the mutants of ``mutants_of_ptx`` in random order.

    The first round yields one mutant of each instruction, the next round a second mutant of each instruction, and so
    on. The edits of an instruction are only computed when they are needed.
    """
    instructions = list(_instructions(text))
    edits: dict[int, list[Edit]] = {}
    left = list(range(len(instructions)))
    while left:
        having = []
        for i in rng.permutation(left):
            start, instruction = instructions[i]
            if i not in edits:
                possible_edits = list(edits_of(instruction))
                edits[i] = [possible_edits[k] for k in rng.permutation(len(possible_edits))]
            if edits[i]:
                edit = edits[i].pop()
                yield Mutant(name, text.count("\n", 0, start) + 1, edit.kind, start, instruction, edit.new)
            if edits[i]:
                having.append(i)
        left = having


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield the position and the text of each instruction of a program."""
    body = text[: text.find("\n\t.section")] if "\n\t.section" in text else text
    for match in _LINE.finditer(body):
        yield match.start("instruction"), match["instruction"]


@dataclass(frozen=True)
class Asm:
    """An ``asm`` statement of a header.

    Holds the positions of the statement and of its instructions in the header's text, and the opcode of the first
    instruction.
    """

    start: int
    end: int
    instructions: tuple[int, int]
    plain: bool  # True if the instructions are literal text without macros
    opcode: str


def asm_of(text: str) -> Iterator[Asm]:
    """Return every ``asm`` statement of a header, including those in macros."""
    for match in _ASM.finditer(text):
        depth, end, sections, plain, texts = 1, match.end(), [match.end()], True, ""
        for piece in _PIECE.finditer(text, match.end()):
            depth += (piece["open"] is not None) - (piece["close"] is not None)
            end = piece.end()
            if depth == 0:
                break
            if piece["colon"] and depth == 1:
                sections.append(piece.start())
            elif len(sections) == 1:
                plain &= piece["word"] is None
                texts += piece["text"] or ""
        instructions = (match.end(), sections[1] if len(sections) > 1 else end - 1)
        opcode = re.search(r"(?<![\w.%])[a-z]\w*(?:\.[\w:]+)+", re.sub(r"\\[nt]|\.reg \.\w+ \w+;", " ", texts))
        yield Asm(match.start(), end, instructions, plain, opcode[0] if opcode else "")


def mutants_of_asm(header: str, text: str) -> Iterator[Mutant]:
    """Return every mutant of the inline PTX of a header.

    Mutants edit instructions and their operands, including instructions that a macro assembles from literal parts.
    """

    def mutant(kind: str, start: int, old: str, new: str) -> Mutant:
        return Mutant(header, text.count("\n", 0, start) + 1, kind, start, old, new)

    for asm in asm_of(text):
        start, end = asm.instructions
        first = text.find('"', start, end)
        if first < 0:
            continue
        texts = text[first:end].rstrip(" \\\n")
        if asm.plain:
            joined = "".join(piece["text"] for piece in _PIECE.finditer(texts) if piece["text"] is not None)
            for match in _INSTRUCTION.finditer(re.sub(r"\\[nt]|[{}](?=\\n)|}$|\.reg [^;]*;", _blanks, joined)):
                for edit in edits_of(match[0]):
                    new = joined[: match.start()] + edit.new + joined[match.end() :]
                    yield mutant(edit.kind, first, texts, f'"{new}"')
        else:
            yield mutant("instruction left out", first, texts, '""')
            for piece in _PIECE.finditer(text, first, end):
                if piece["text"]:
                    for edit in _edits_of_part(piece["text"]):
                        yield mutant(edit.kind, piece.start(), piece[0], f'"{edit.new}"')
        yield from _mutants_of_operands(mutant, text, end, asm.end)
    for match in _MACRO_ARGUMENT.finditer(text):
        if not any(asm.start <= match.start() < asm.end for asm in asm_of(text)):
            for edit in _edits_of_part(match["text"]):
                yield mutant(edit.kind, match.start(), match[0], f'"{edit.new}"')


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _edits_of_part(part: str) -> Iterator[Edit]:
    """Return edits of the literal part of an instruction whose remaining text is from a macro."""
    for match in _WORD.finditer(part):
        for other in _QUALIFIERS.get(match[1], ()):
            yield Edit("qualifier", part[: match.start()] + (f".{other}" if other else "") + part[match.end() :])
    for match in _PAIR.finditer(part):
        yield Edit("operand", f"{part[: match.start()]}{match[2]}, {match[1]}{part[match.end() :]}")
    for old, new in (("p, 1, 1", "p, -1, 1"), ("p, 1, 1", "p, 1, -1"), (", p,", ", 1,")):
        if old in part:
            yield Edit("operand", part.replace(old, new, 1))


def _mutants_of_operands(
    mutant: Callable[[str, int, str, str], Mutant], text: str, start: int, end: int
) -> Iterator[Mutant]:
    """Return mutants that swap adjacent operands of equal constraint, or drop the input value of an in-out operand."""
    operands = list(_OPERAND.finditer(text, start, end))
    for operand in operands:
        if operand["constraint"].startswith("+"):
            yield mutant("constraint", operand.start(), operand[0], operand[0].replace('"+', '"=', 1))
    for a, b in pairwise(operands):
        between = text[a.end() : b.start()]
        if a["constraint"] == b["constraint"] and ":" not in between and a["value"] != b["value"]:
            old = text[a.start() : b.end()]
            new = f'"{a["constraint"]}"{b["value"]}{between}"{b["constraint"]}"{a["value"]}'
            yield mutant("operand", a.start(), old, new)
