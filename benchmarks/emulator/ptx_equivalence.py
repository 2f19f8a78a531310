"""Decide by experiments whether a PTX mutant that passes every verification is equivalent to the correct program.

The experiments, for a kernel with constant sizes:

- Does any lane execute the instruction? A ``trap`` replaces it.
- Does any visible effect depend on the result? An undefined register replaces it.
- Does the edited instruction ever compute another value? The correct and the edited instruction are executed, and a
``trap`` follows if their results differ.
- Does the difference reach an effect? Copies of later values are computed from the wrong value. An instruction that can
hide a difference, such as a comparison or a selection, is executed with the values and with the copies, and the
results are compared. At other instructions, such as loads and stores, the operands are compared with their copies.
- Does any lane need the result of a shuffle with a wrong partner lane?

If the instruction depends on the inputs, the answers hold only for the inputs that the verification used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from benchmarks.emulator.mutants import Mutant

Passes = Callable[[str], bool]  # a function that verifies a PTX text, and returns True if there is no finding

_PARTS = re.compile(r"(?P<guard>@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*);")
_REGISTER = re.compile(r"%[a-z]+\d*\b")
_TYPES = {"%p": "pred", "%rs": "b16", "%r": "b32", "%rd": "b64", "%f": "b32", "%fd": "b64"}
# Each register that depends on the mutated instruction has a copy, which holds the register's value in the mutated
# program. Treatment of instructions that read such a register:
# - _KEEP: a different operand usually gives a different result, so the result gets a copy, computed from the copies.
# - _DROP: the instruction is executed with the registers and with their copies, and the results are compared.
# - Other opcodes, such as stores: the registers are compared with their copies.
_KEEP = ("add", "sub", "mul", "mad", "shl", "shr", "and", "or", "mov", "cvt", "neg", "not", "xor", "fma")
_DROP = ("setp", "selp", "min", "max", "div", "rem", "bfe", "abs", "copysign")
_EFFECTS = (
    "st",
    "bra",
    "bar",
    "barrier",
    "atom",
    "red",
    "cp",
    "ret",
    "exit",
    "fence",
    "membar",
    "trap",
    "call",
    "wmma",
)


def why_same(text: str, mutant: Mutant, passes: Passes) -> str:
    """Return the reason why the mutant is equivalent, or "" if no reason is found. ``text`` is the correct program."""
    if passes(_with(text, mutant, "trap;")):
        return "no lane ever executes the instruction"
    if _is_dead(text, mutant.old):
        return "no instruction uses the result"
    undefined = _undefined(text, mutant)
    if undefined and passes(undefined):
        return "no lane ever needs the result"
    partners = _without_partners(text, mutant)
    if partners and passes(partners):
        return "only lanes with the correct partner need the result"
    both = _both(mutant)
    if both is not None:
        declared, lines = both
        if passes(_declaring(declared, _with(text, mutant, lines))):
            return "the edited instruction computes the same value in every lane"
    followed = _followed(text, mutant)
    if followed and passes(followed):
        return "all values derived from the result are the same in every lane"
    return ""


def _with(text: str, mutant: Mutant, new: str) -> str:
    return text[: mutant.start] + new + text[mutant.start + len(mutant.old) :]


def _declaring(declared: str, text: str) -> str:
    body = text.index("\n{\n", text.index(".entry")) + 3
    return f"{text[:body]}\t{declared}\n{text[body:]}"


def _undefined(text: str, mutant: Mutant) -> str:
    """Return the program with an undefined register in place of the result, or "" if the result is not one register."""
    match = _PARTS.fullmatch(mutant.old)
    if match is None or match["guard"] or match["opcode"].startswith(_EFFECTS):
        return ""
    results, _, _ = _results(match["operands"])
    kinds = {_kind(result) for result in results}
    if not results or None in kinds:
        return ""
    moves = "\n\t".join(f"mov.{_kind(result)} {result}, %never_{_kind(result)};" for result in results)
    declared = "\n\t".join(f".reg .{kind} %never_{kind};" for kind in kinds)
    return _declaring(declared, _with(text, mutant, moves))


def _without_partners(text: str, mutant: Mutant) -> str:
    """Return the correct program, but with undefined results in lanes whose shuffle partner differs in the mutant.

    Only mutants that replace ``shfl.bfly`` by ``shfl.down`` are supported. For other mutants, return "".
    """
    match = _PARTS.fullmatch(mutant.old)
    if match is None or ".bfly." not in mutant.old or ".down." not in mutant.new:
        return ""
    result, _, distance, *_ = (part.strip() for part in match["operands"].split(","))
    lines = (
        mutant.old,
        "mov.u32 %partner, %laneid;",
        f"and.b32 %partner, %partner, {distance};",
        "setp.ne.u32 %others, %partner, 0;",
        f"@%others mov.b32 {result}, %never;",
    )
    declared = ".reg .b32 %partner, %never;\n\t.reg .pred %others;"
    return _declaring(declared, _with(text, mutant, "\n\t".join(lines)))


def _kind(register: str) -> str | None:
    return _TYPES.get(re.sub(r"\d+$", "", register))


def _differs(kind: str, a: str, b: str, guard: str = "") -> list[str]:
    """Return instructions that trap in lanes in which ``guard`` is true and two registers differ."""
    unequal = f"xor.pred %differs, {a}, {b};" if kind == "pred" else f"setp.ne.{kind} %differs, {a}, {b};"
    only = []
    if guard.startswith("@!"):
        only = [f"not.pred %guarded, {guard[2:]};", "and.pred %differs, %differs, %guarded;"]
    elif guard:
        only = [f"and.pred %differs, %differs, {guard[1:]};"]
    return [unequal, *only, "@%differs trap;"]


def _followed(text: str, mutant: Mutant) -> str:
    """Return the program with a copy of each register that depends on the mutated instruction.

    A copy holds the register's value in the mutated program. Only the instructions of _KEEP compute copies. The program
    traps if the copies change the result of another instruction, or differ from the operands of a store or branch.

    Returns "" if the mutant does not change a value.
    """
    lines = text.split("\n")
    at = mutant.line - 1
    parts = [_PARTS.fullmatch(line.strip()) for line in lines]
    wrong, right = _PARTS.fullmatch(mutant.new), parts[at]
    if right is None or right["guard"] or right["opcode"].startswith(_EFFECTS):
        return ""
    first, _, _ = _results(right["operands"])
    if not first or (mutant.new and (wrong is None or wrong["guard"] or _results(wrong["operands"])[0] != first)):
        return ""
    copies = {register: f"%copy{k}" for k, register in enumerate(first)}
    reached = True
    while reached:  # a result computed from a copied register is copied too
        reached = False
        for match in parts:
            if match is None or match["guard"] or match["opcode"].split(".")[0] not in _KEEP:
                continue
            results, _, operands = _results(match["operands"])
            if len(results) == 1 and results[0] not in copies and copies.keys() & set(_REGISTER.findall(operands)):
                copies[results[0]] = f"%copy{len(copies)}"
                reached = True
    if any(_kind(register) is None for register in copies):
        return ""
    declared = [f".reg .{_kind(register)} {copy};" for register, copy in copies.items()]
    declared += [".reg .pred %differs;", ".reg .pred %guarded;"]
    new_lines: list[str] = []
    for i, (line, match) in enumerate(zip(lines, parts, strict=True)):
        before, after = ([], []) if match is None else _doubled(match, copies, i, declared)
        if i == at:
            before, after = [], []
            if wrong is not None:
                results, comma, operands = _results(wrong["operands"])
                text_of = wrong["operands"][: len(wrong["operands"]) - len(comma + operands)]
                before = [f"{wrong['opcode']} {_copied(text_of, copies)}{comma}{_copied(operands, copies)};"]
        new_lines += [f"\t{new}" for new in before] + [line] + [f"\t{new}" for new in after]
    return _declaring("\n\t".join(declared), "\n".join(new_lines))


def _copied(operands: str, copies: Mapping[str, str]) -> str:
    return _REGISTER.sub(lambda register: copies.get(register[0], register[0]), operands)


def _doubled(
    match: re.Match[str], copies: Mapping[str, str], line: int, declared: list[str]
) -> tuple[list[str], list[str]]:
    """Return code to insert before and after an instruction.

    For _KEEP, the code computes a copy of the result from the copies of the operands. For _DROP, it traps if the copies
    change the result. For other instructions, it traps if the copies differ from the operands.
    """
    opcode, guard = match["opcode"], match["guard"] or ""
    head = opcode.split(".")[0]
    if opcode.startswith(_EFFECTS):
        results, comma, operands = [], "", match["operands"]
    else:
        results, comma, operands = _results(match["operands"])
    touched = sorted(copies.keys() & set(_REGISTER.findall(guard + operands)))
    copied = [register for register in results if register in copies]
    restored = [f"{guard}mov.{_kind(register)} {copies[register]}, {register};" for register in copied]
    if copied and head in _KEEP and not guard and len(results) == 1:
        return [f"{opcode} {copies[results[0]]}{comma}{_copied(operands, copies)};"], []
    if not touched:
        return [], restored
    kind = _kind(results[0]) if len(results) == 1 else None
    if head in _DROP and not guard and kind is not None:
        declared.append(f".reg .{kind} %made{line};")
        same = _differs(kind, results[0], f"%made{line}")
        return [f"{opcode} %made{line}{comma}{_copied(operands, copies)};"], [*same, *restored]
    checks = [
        text
        for register in touched
        for text in _differs(str(_kind(register)), register, copies[register], guard.strip())
    ]
    return checks, restored


def _both(mutant: Mutant) -> tuple[str, str] | None:
    """Return declarations and instructions that compute the correct and the wrong value, and trap if they differ.

    Return None for an instruction whose result is not one register.
    """
    right, wrong = _PARTS.fullmatch(mutant.old), _PARTS.fullmatch(mutant.new)
    if right is None or wrong is None:
        return None
    if right["opcode"].startswith("bra"):
        guard = (right["guard"] or "").strip()
        if wrong["guard"] or not guard:
            return None
        other = f"@{guard[2:]}" if guard.startswith("@!") else f"@!{guard[1:]}"
        return "", f"{other} trap;\n\t{mutant.old}"
    result = right["operands"].split(",")[0].strip()
    kind = _kind(result)
    if kind is None or right["guard"] or wrong["guard"] or wrong["operands"].split(",")[0].strip() != result:
        return None
    operands = wrong["operands"].replace(result, "%mutant", 1)
    differs = (
        f"xor.pred %differs, %mutant, {result};" if kind == "pred" else f"setp.ne.{kind} %differs, %mutant, {result};"
    )
    lines = f"{wrong['opcode']} {operands};\n\t{mutant.old}\n\t{differs}\n\t@%differs trap;"
    return f".reg .{kind} %mutant;\n\t.reg .pred %differs;", lines


def _is_dead(text: str, instruction: str) -> bool:
    """Return True if no store, jump, barrier or memory copy needs the result of ``instruction``, even indirectly."""
    replacement = _PARTS.fullmatch(instruction)
    if replacement is None or replacement["opcode"].startswith(_EFFECTS):
        return False
    sources: dict[str, set[str]] = {}
    needed: set[str] = set()
    for line in text.splitlines():
        match = _PARTS.fullmatch(line.strip())
        if match is None:
            continue
        guards = set(_REGISTER.findall(match["guard"] or ""))
        if match["opcode"].startswith(_EFFECTS):
            needed |= guards | set(_REGISTER.findall(match["operands"]))
            continue
        results, _, operands = _results(match["operands"])
        for result in results:
            sources.setdefault(result, set()).update(guards, _REGISTER.findall(operands))
    pending = list(needed)
    while pending:
        for source in sources.get(pending.pop(), ()):
            if source not in needed:
                needed.add(source)
                pending.append(source)
    results, _, _ = _results(replacement["operands"])
    return bool(results) and not needed & set(results)


def _results(operands: str) -> tuple[list[str], str, str]:
    """Split an instruction's operands into the written registers, a comma, and the source operands."""
    if operands.startswith("{"):
        first, comma, remaining = operands.partition("}")
    else:
        first, comma, remaining = operands.partition(",")
    return _REGISTER.findall(first), comma, remaining
