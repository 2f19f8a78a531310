"""Why a mutant of PTX that a proof does not report is the same program, as far as that can be found out by running it.

Three questions, of a kernel whose sizes are constants: does any lane ever execute the instruction (a ``trap`` in its
place is not reported either)? does the edit ever give another value (both are computed, and a ``trap`` follows where
they differ)? is the result needed by anything that can be seen from outside? Where the instruction depends on the
inputs, the answers are for the inputs of the proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.mutants import Mutant

Passes = Callable[[str], bool]  # whether a proof of this text finds nothing

_PARTS = re.compile(r"(?P<guard>@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*);")
_REGISTER = re.compile(r"%[a-z]+\d*\b")
_TYPES = {"%p": "pred", "%rs": "b16", "%r": "b32", "%rd": "b64", "%f": "b32", "%fd": "b64"}
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
    """One sentence; "" where nothing of this kind was found. ``text`` is that of the right program."""
    if passes(_with(text, mutant, "trap;")):
        return "no lane ever executes it"
    if _is_dead(text, mutant.old):
        return "nothing uses its result"
    both = _both(mutant)
    if both is not None:
        declared, lines = both
        checked = _with(text, mutant, lines)
        body = checked.index("\n{\n", checked.index(".entry")) + 3
        if passes(f"{checked[:body]}\t{declared}\n{checked[body:]}"):
            return "it gives the same value in every lane"
    return ""


def _with(text: str, mutant: Mutant, new: str) -> str:
    return text[: mutant.start] + new + text[mutant.start + len(mutant.old) :]


def _both(mutant: Mutant) -> tuple[str, str] | None:
    """Declarations and instructions that compute the right and the wrong value, and trap where they differ; None for
    an instruction whose result is not one register."""
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
    kind = _TYPES.get(re.sub(r"\d+$", "", result))
    if kind is None or right["guard"] or wrong["guard"] or wrong["operands"].split(",")[0].strip() != result:
        return None
    operands = wrong["operands"].replace(result, "%mutant", 1)
    differs = (
        f"xor.pred %differs, %mutant, {result};" if kind == "pred" else f"setp.ne.{kind} %differs, %mutant, {result};"
    )
    lines = f"{wrong['opcode']} {operands};\n\t{mutant.old}\n\t{differs}\n\t@%differs trap;"
    return f".reg .{kind} %mutant;\n\t.reg .pred %differs;", lines


def _is_dead(text: str, instruction: str) -> bool:
    """Whether no store, jump, barrier or copy needs what ``instruction`` makes, directly or not."""
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
    """The registers that an instruction writes, a comma, and its sources."""
    if operands.startswith("{"):
        first, comma, rest = operands.partition("}")
    else:
        first, comma, rest = operands.partition(",")
    return _REGISTER.findall(first), comma, rest
