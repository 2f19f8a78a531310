"""Rules of a program's space for wmma: where wmma is possible, and where mma.sync replaces it."""

from __future__ import annotations

from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device
from search_spaces.programs.planning.choices import Choices, unique_operands
from search_spaces.programs.planning.instructions import is_boxed, is_wmma
from search_spaces.programs.planning.staging import SHARED
from search_spaces.programs.planning.wmma import why_not_wmma
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.rules import Rule


def wmma_rules(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return the validity rules of wmma: operands must be in shared memory, and sums must be accumulated in loops."""
    if not any(is_wmma(name) for name in choices.instructions(device)):
        return ()
    reasons = (why_not_wmma(i) for i in choices.inferences.values())
    reason = next((r for r in reasons if r is not None), None)

    def why_not(intrinsic: str) -> str | None:
        return reason if is_wmma(intrinsic) else None

    rules = [Rule.refusing("wmma", why_not, "wmma reads operands from shared memory, and accumulates only in loops")]
    for s in unique_operands(choices.first):
        if s.loop is None:
            rules.append(_home_rule(s.name))
    return tuple(rules)


def _home_rule(name: str) -> Rule:
    def why_not(home: Value, intrinsic: str) -> str | None:
        if home == SHARED or not is_wmma(intrinsic):
            return None
        return f"{intrinsic} reads {name} from shared memory, not from {home}"

    names = {"home": f"home_{name}", "intrinsic": "intrinsic"}
    return Rule.refusing(f"wmma_{name}", why_not, f"{name} is in shared memory if wmma is used", names=names)


def wmma_pruning(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return the pruning rule that drops wmma if mma.sync can read all operands.

    mma.sync is faster, as its accumulators need no shared memory. For mma.sync, operands must be contiguous along k
    unless their type has 16 bits, because ldmatrix transposes only 16-bit types.
    """
    names = choices.instructions(device)
    if not any(is_wmma(name) for name in names) or choices.element is None:
        return ()
    operands = (s for s in unique_operands(choices.first) if not s.converted)
    along_k = all(s.row_major == (s.side == "a") for s in operands)
    rows = [intrinsics.intrinsic(name) for name in names if not is_boxed(name)]
    serving = [row.name for row in rows if row.unit == "mma" and row.why_not(device) is None]
    if not serving or not (choices.element.bits == 16 or along_k):
        return ()

    def why_not(intrinsic: str) -> str | None:
        if not is_wmma(intrinsic):
            return None
        return f"{intrinsic} is slower than {serving[0]}, which supports these operands and accumulates in registers"

    return (Rule.refusing("wmma_worth_a_try", why_not, "mma.sync is used if it can read the operands"),)
