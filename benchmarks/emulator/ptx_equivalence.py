"""Decide by experiments if a mutant of PTX that no verification reports is an equivalent program, and why.

The experiments, for a kernel with constant sizes:

- Is the instruction executed by any lane? A ``trap`` replaces it.
- Does any visible effect depend on its result? An undefined register replaces the result.
- Does the edit ever give another value? Both values are computed, and a ``trap`` follows if they differ.
- Does the difference reach a later instruction? Results of the wrong value are computed next to the correct ones, up to
  comparisons, selections, shifts, addresses and stores.
- For a shuffle with the wrong lane: does any lane whose partner differs need the result?

If the instruction depends on the inputs, the answers are for the inputs of the verification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from benchmarks.emulator.mutants import Mutant

Passes = Callable[[str], bool]  # returns True if a verification of this text has no finding

_PARTS = re.compile(r"(?P<guard>@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*);")
_REGISTER = re.compile(r"%[a-z]+\d*\b")
_TYPES = {"%p": "pred", "%rs": "b16", "%r": "b32", "%rd": "b64", "%f": "b32", "%fd": "b64"}
# Opcodes whose results mostly differ if an operand differs. Copies are followed until a branch, a store or an address
# uses them.
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
    """Return one sentence, or "" if the program is not equivalent. ``text`` is the correct program."""
    if passes(_with(text, mutant, "trap;")):
        return "no lane ever executes it"
    if _is_dead(text, mutant.old):
        return "nothing uses its result"
    undefined = _undefined(text, mutant)
    if undefined and passes(undefined):
        return "no lane ever needs its result"
    partners = _without_partners(text, mutant)
    if partners and passes(partners):
        return "only lanes whose partner is the same need its result"
    both = _both(mutant)
    if both is not None:
        declared, lines = both
        if passes(_declaring(declared, _with(text, mutant, lines))):
            return "it gives the same value in every lane"
    followed = _followed(text, mutant)
    if followed and passes(followed):
        return "what is made of it is the same in every lane"
    return ""


def _with(text: str, mutant: Mutant, new: str) -> str:
    return text[: mutant.start] + new + text[mutant.start + len(mutant.old) :]


def _declaring(declared: str, text: str) -> str:
    body = text.index("\n{\n", text.index(".entry")) + 3
    return f"{text[:body]}\t{declared}\n{text[body:]}"


def _undefined(text: str, mutant: Mutant) -> str:
    """Return the program with an undefined register in place of the result; "" if the result is not one register."""
    made = _PARTS.fullmatch(mutant.old)
    if made is None or made["guard"] or made["opcode"].startswith(_EFFECTS):
        return ""
    results, _, _ = _results(made["operands"])
    kinds = {_kind(result) for result in results}
    if not results or None in kinds:
        return ""
    moves = "\n\t".join(f"mov.{_kind(result)} {result}, %never_{_kind(result)};" for result in results)
    declared = "\n\t".join(f".reg .{kind} %never_{kind};" for kind in kinds)
    return _declaring(declared, _with(text, mutant, moves))


def _without_partners(text: str, mutant: Mutant) -> str:
    """Return the correct program with an undefined result in the lanes of a shuffle whose partner differs.

    Only for ``shfl.bfly`` that becomes ``shfl.down``; "" for all others.
    """
    found = _PARTS.fullmatch(mutant.old)
    if found is None or ".bfly." not in mutant.old or ".down." not in mutant.new:
        return ""
    result, _, distance, *_ = (part.strip() for part in found["operands"].split(","))
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
    """Return a trap for lanes in which ``guard`` holds and two registers differ."""
    unequal = f"xor.pred %differs, {a}, {b};" if kind == "pred" else f"setp.ne.{kind} %differs, {a}, {b};"
    only = []
    if guard.startswith("@!"):
        only = [f"not.pred %guarded, {guard[2:]};", "and.pred %differs, %differs, %guarded;"]
    elif guard:
        only = [f"and.pred %differs, %differs, {guard[1:]};"]
    return [unequal, *only, "@%differs trap;"]


def _followed(text: str, mutant: Mutant) -> str:
    """Return the program with a second copy of all results of the wrong value, by instructions that keep a difference.

    A trap follows where other instructions get different results from the two copies. "" if the mutant does not change
    a value.
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
    while reached:  # results computed from copies have a copy too
        reached = False
        for found in parts:
            if found is None or found["guard"] or found["opcode"].split(".")[0] not in _KEEP:
                continue
            results, _, rest = _results(found["operands"])
            if len(results) == 1 and results[0] not in copies and copies.keys() & set(_REGISTER.findall(rest)):
                copies[results[0]] = f"%copy{len(copies)}"
                reached = True
    if any(_kind(register) is None for register in copies):
        return ""
    declared = [f".reg .{_kind(register)} {copy};" for register, copy in copies.items()]
    declared += [".reg .pred %differs;", ".reg .pred %guarded;"]
    made: list[str] = []
    for i, (line, found) in enumerate(zip(lines, parts, strict=True)):
        before, after = ([], []) if found is None else _doubled(found, copies, i, declared)
        if i == at:
            before, after = [], []
            if wrong is not None:
                results, comma, rest = _results(wrong["operands"])
                text_of = wrong["operands"][: len(wrong["operands"]) - len(comma + rest)]
                before = [f"{wrong['opcode']} {_copied(text_of, copies)}{comma}{_copied(rest, copies)};"]
        made += [f"\t{new}" for new in before] + [line] + [f"\t{new}" for new in after]
    return _declaring("\n\t".join(declared), "\n".join(made))


def _copied(operands: str, copies: Mapping[str, str]) -> str:
    return _REGISTER.sub(lambda register: copies.get(register[0], register[0]), operands)


def _doubled(
    found: re.Match[str], copies: Mapping[str, str], line: int, declared: list[str]
) -> tuple[list[str], list[str]]:
    """Return the code before and after an instruction if some registers have copies."""
    opcode, guard = found["opcode"], found["guard"] or ""
    head = opcode.split(".")[0]
    if opcode.startswith(_EFFECTS):
        results, comma, rest = [], "", found["operands"]
    else:
        results, comma, rest = _results(found["operands"])
    touched = sorted(copies.keys() & set(_REGISTER.findall(guard + rest)))
    copied = [register for register in results if register in copies]
    restored = [f"{guard}mov.{_kind(register)} {copies[register]}, {register};" for register in copied]
    if copied and head in _KEEP and not guard and len(results) == 1:
        return [f"{opcode} {copies[results[0]]}{comma}{_copied(rest, copies)};"], []
    if not touched:
        return [], restored
    kind = _kind(results[0]) if len(results) == 1 else None
    if head in _DROP and not guard and kind is not None:
        declared.append(f".reg .{kind} %made{line};")
        same = _differs(kind, results[0], f"%made{line}")
        return [f"{opcode} %made{line}{comma}{_copied(rest, copies)};"], [*same, *restored]
    checks = [
        text
        for register in touched
        for text in _differs(str(_kind(register)), register, copies[register], guard.strip())
    ]
    return checks, restored


def _both(mutant: Mutant) -> tuple[str, str] | None:
    """Return declarations and instructions that compute the correct and the wrong value, and trap if they differ.

    None for an instruction whose result is not one register.
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
    """Return True if no store, jump, barrier or copy needs the result of ``instruction``, directly or indirectly."""
    made = _PARTS.fullmatch(instruction)
    if made is None or made["opcode"].startswith(_EFFECTS):
        return False
    sources: dict[str, set[str]] = {}
    needed: set[str] = set()
    for line in text.splitlines():
        found = _PARTS.fullmatch(line.strip())
        if found is None:
            continue
        guards = set(_REGISTER.findall(found["guard"] or ""))
        if found["opcode"].startswith(_EFFECTS):
            needed |= guards | set(_REGISTER.findall(found["operands"]))
            continue
        results, _, rest = _results(found["operands"])
        for result in results:
            sources.setdefault(result, set()).update(guards, _REGISTER.findall(rest))
    pending = list(needed)
    while pending:
        for source in sources.get(pending.pop(), ()):
            if source not in needed:
                needed.add(source)
                pending.append(source)
    results, _, _ = _results(made["operands"])
    return bool(results) and not needed & set(results)


def _results(operands: str) -> tuple[list[str], str, str]:
    """Return the registers that an instruction writes, a comma, and its sources."""
    if operands.startswith("{"):
        first, comma, rest = operands.partition("}")
    else:
        first, comma, rest = operands.partition(",")
    return _REGISTER.findall(first), comma, rest
