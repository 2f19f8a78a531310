"""Steps of a scan: one step per digit of the tile's distribution, fastest digits first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from search_spaces.hardware.fragments import WARP
from search_spaces.programs.language.distribution import Digit, Distribution
from search_spaces.programs.planning.memory import aligned


@dataclass(frozen=True)
class ScanStep:
    """The step of a scan that combines elements along one digit of the dimension.

    Attributes:
        digit: A digit of the warp, lane or register number.
        groups: For each register, the index of its group's total. Earlier steps compute one total per group of
            registers.
        totals: Number of totals per thread before this step.
        after: For each total before the step, the index of the total that contains it after the step. For digits of
            warps and lanes, the index stays the same.
    """

    digit: Digit
    groups: tuple[int, ...]
    totals: int
    after: tuple[int, ...]


@lru_cache(maxsize=2**12)
def scan_steps(of: Distribution, dimension: int) -> tuple[ScanStep, ...]:
    """Return the steps of a scan along ``dimension``."""
    steps, registers = list[ScanStep](), range(of.registers)
    keys = list(registers)  # number of each register, with the digits of earlier steps set to 0
    for digit in reversed(of.digits[dimension]):
        if digit.size == 1:
            continue
        known = sorted(set(keys))
        groups = tuple(known.index(key) for key in keys)
        after = tuple(range(len(known)))
        if digit.unit == "register":
            keys = [key - r // digit.stride % digit.size * digit.stride for r, key in zip(registers, keys, strict=True)]
            left = sorted(set(keys))
            after = tuple(left.index(keys[groups.index(g)]) for g in range(len(known)))
        steps.append(ScanStep(digit, groups, len(known), after))
    return tuple(steps)


@lru_cache(maxsize=2**14)
def scan_bytes(of: Distribution, dimension: int, warps: int) -> int:
    """Return the bytes of shared memory of a scan: the totals of all threads if the scan extends across warps."""
    steps = scan_steps(of, dimension)
    return max((aligned(4 * WARP * warps * s.totals) for s in steps if s.digit.unit == "warp"), default=0)


@lru_cache(maxsize=2**14)
def scan_instructions(of: Distribution, dimension: int) -> int:
    """Return the number of warp instructions of a scan."""
    total = of.registers
    for step in scan_steps(of, dimension):
        if step.digit.unit == "register":
            total += step.totals
        elif step.digit.unit == "lane":
            total += 4 * step.totals * (step.digit.size.bit_length() - 1) + of.registers
        else:
            total += step.totals * (2 + 3 * step.digit.size) + of.registers
    return total
