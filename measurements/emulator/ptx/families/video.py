"""Convert video instructions to runtime instructions (``Form``; PTX ISA 9.7.17).

Video instructions are scalar, or SIMD on two halves or four bytes of a register.
"""

from __future__ import annotations

import re
from itertools import pairwise

from measurements.emulator.ptx.forms import FLAGS, Form, SourceOperand, Unsupported
from measurements.emulator.ptx.syntax import Instruction, Minus, Number, Operand, RegisterPart

# The order must equal the order of the enumerations in runtime/isa/arithmetic/video.cpp.
_OPERATIONS = ("add", "sub", "absdiff", "min", "max", "shl", "shr", "avrg", "set")
_SECONDARY = ("add", "min", "max")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_NAME = re.compile(r"v([a-z]+)([24]?)")
_WHOLE = (0, 32)
_SCALES = {"shr7": 7, "shr15": 15}


def video_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for a video instruction; None for another instruction. Raises Unsupported."""
    match = _NAME.fullmatch(i.opcode)
    if match is None:
        return None
    if match[1] == "mad" and not match[2]:
        return _multiply_add(i)
    if match[1] not in _OPERATIONS:
        return None
    return _simd(i, match[1], int(match[2])) if match[2] else _scalar(i, match[1])


def _common(i: Instruction, operation: str) -> tuple[list[int], list[str]]:
    """Return the immediates that all video instructions have, and the remaining qualifiers.

    The immediates are operation, comparison, signedness of d, a and b, and secondary operation.
    """
    count = 2 if operation == "set" else 3  # the result of set is 0 or 1
    kinds, rest = i.qualifiers[:count], list(i.qualifiers[count:])
    if not set(kinds) <= {"u32", "s32"}:
        raise Unsupported
    comparison = _COMPARISONS.index(rest.pop(0)) if operation == "set" else 0
    signs = [*([0] if operation == "set" else []), *(int(kind == "s32") for kind in kinds)]
    secondary = next((_SECONDARY.index(q) + 1 for q in rest if q in _SECONDARY), 0)
    unknown = [q for q in rest if q not in (*_SECONDARY, "sat")]
    return [_OPERATIONS.index(operation), comparison, *signs, secondary], unknown


def _saturation(i: Instruction) -> int:
    return FLAGS["sat"] if "sat" in i.qualifiers else 0


def _selected(operand: Operand) -> tuple[Operand, str]:
    return (operand.operand, operand.part) if isinstance(operand, RegisterPart) else (operand, "")


def _bits(part: str) -> tuple[int, int]:
    """Return the first bit and the number of bits of a selected byte or half."""
    if not part:
        return _WHOLE
    if part not in ("b0", "b1", "b2", "b3", "h0", "h1"):
        raise Unsupported
    bits = 8 if part[0] == "b" else 16
    return int(part[1]) * bits, bits


def _scalar(i: Instruction, operation: str) -> Form:
    """Return the ``Form`` for a scalar instruction ``d, a, b{, c}``, with bytes or halves of registers as d, a and b.

    c is the operand of the secondary operation, or provides the bytes of d that are not written.
    """
    common, rest = _common(i, operation)
    (d, to), (a, of_a), (b, of_b) = map(_selected, i.operands[:3])
    third = i.operands[3:]
    shifts = operation in ("shl", "shr")
    if rest not in ([["clamp"], ["wrap"]] if shifts else [[]]) or (shifts and i.qualifiers[2] != "u32"):
        raise Unsupported
    if bool(third) != bool(to or common[-1]) or (to and common[-1]):
        raise Unsupported
    sources = [SourceOperand(o, 4) for o in (a, b, *(third or [Number(0)]))]
    immediates = [*common, *_bits(to), *_bits(of_a), *_bits(of_b), int("wrap" in rest)]
    return Form("video.scalar", _saturation(i), [d], sources, immediates)


def _simd(i: Instruction, operation: str, parts: int) -> Form:
    """Return the ``Form`` for a SIMD instruction ``d, a, b, c``."""
    common, rest = _common(i, operation)
    (d, mask), (a, of_a), (b, of_b) = map(_selected, i.operands[:3])
    adds = bool(common[-1])
    letter, own = ("h", "10") if parts == 2 else ("b", "3210")
    chosen = _numbers(mask or letter + own, letter, parts)
    if rest or (adds and common[-1] != 1) or any(high <= low for high, low in pairwise(chosen)):
        raise Unsupported
    of_parts = [
        _numbers(text or default, letter, 2 * parts)
        for text, default in ((of_a, letter + own), (of_b, f"{letter}{'32' if parts == 2 else '7654'}"))
    ]
    if any(len(numbers) != parts for numbers in of_parts):
        raise Unsupported
    # c provides the fields of d that are not written, so it is unused if all are written.
    third = Number(0) if len(chosen) == parts and not adds else i.operands[3]
    immediates = [*common, parts, sum(1 << n for n in chosen), *(n for numbers in of_parts for n in reversed(numbers))]
    return Form("video.simd", _saturation(i), [d], [SourceOperand(o, 4) for o in (a, b, third)], immediates)


def _numbers(text: str, letter: str, count: int) -> list[int]:
    """Return the indices in a selector such as ``b3210``, in the written order."""
    numbers = [int(c) for c in text[1:]]
    if text[0] != letter or not numbers or max(numbers) >= count:
        raise Unsupported
    return numbers


def _multiply_add(i: Instruction) -> Form:
    """Return the ``Form`` for vmad ``d, {-}a, {-}b, {-}c``, where a and b may be bytes or halves of registers."""
    d, *factors = i.operands
    kinds = i.qualifiers[:3]
    rest = [q for q in i.qualifiers[3:] if q not in ("sat", "po", *_SCALES)]
    if len(factors) != 3 or rest or not set(kinds) <= {"u32", "s32"} or len(kinds) != 3:
        raise Unsupported
    minus = [isinstance(o, Minus) for o in factors]
    (a, of_a), (b, of_b), (c, of_c) = (_selected(o.operand if isinstance(o, Minus) else o) for o in factors)
    plus_one = "po" in i.qualifiers
    if of_c or (plus_one and any(minus)) or (minus[0] != minus[1] and minus[2]):
        raise Unsupported
    shift = next((_SCALES[q] for q in i.qualifiers if q in _SCALES), 0)
    signs = [int(kind == "s32") for kind in kinds[1:]]
    immediates = [*signs, int(minus[0] != minus[1]), int(minus[2]), int(plus_one), shift, *_bits(of_a), *_bits(of_b)]
    return Form("vmad", _saturation(i), [d], [SourceOperand(o, 4) for o in (a, b, c)], immediates)
