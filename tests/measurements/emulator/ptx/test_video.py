"""Video instructions agree with the pseudo-code of the PTX ISA (9.7.17), which is written here in Python.

If an H100 gives a different result (ptxas 13.5, 2026-11-27), the H100's result is expected.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from needs import needs_compiler
from ptx_snippets import Snippet, disagreements, results

pytestmark = needs_compiler

WORDS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF00FF,
    0x7FFF8000,
    0x8000_7FFF,
    0x12345678,
    0xFEDCBA98,
    0x80000000,
    0x7FFFFFFF,
    0xFFFFFFFF,
)
OPERANDS = [(a, b, WORDS[(5 * k + 3) % len(WORDS)]) for k, (a, b) in enumerate(itertools.product(WORDS, WORDS))]
TYPES = [*itertools.product(("u32", "s32"), repeat=3)]
SELECTORS = ("", ".b0", ".b3", ".h1")
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__,
}  # fmt: skip


def extended(bits: int, size: int, kind: str) -> int:
    bits &= 2**size - 1
    return bits - 2**size if kind == "s32" and bits >> (size - 1) else bits


def selected(word: int, selector: str, kind: str) -> int:
    if not selector:
        return extended(word, 32, kind)
    size = 8 if selector[1] == "b" else 16
    return extended(word >> size * int(selector[2]), size, kind)


def clamped(x: int, size: int, kind: str) -> int:
    low, high = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if kind == "s32" else (0, 2**size - 1)
    return max(low, min(high, x))


def saturated(x: int, size: int, kind: str) -> int:
    """Saturate like an H100.

    Negative 8-bit and 16-bit values become the type's largest value. u32 saturates at 0 but not at its largest value.
    """
    if size < 32:
        largest = 2 ** (size - (kind == "s32")) - 1
        return min(x, largest) if x >= 0 else largest
    return max(x, 0) if kind == "u32" else clamped(x, 32, kind)


def merged(x: int, selector: str, c: int) -> int:
    size = 8 if selector[1] == "b" else 16
    shift = size * int(selector[2])
    mask = (2**size - 1) << shift
    return (x << shift) & mask | c & ~mask


PRIMARY: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vavrg": lambda a, b: (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1,
}
SECONDARY: dict[str, Callable[[int, int], int]] = {"add": lambda x, c: x + c, "min": min, "max": max}


def as_number(holds: Callable[[int, int], bool]) -> Callable[[int, int], int]:
    return lambda x, y: int(holds(x, y))


def scalar(
    primary: Callable[[int, int], int],
    kinds: tuple[str, str, str],
    sat: bool,
    secondary: str,
    to: str,
    of_a: str,
    of_b: str,
    *,
    narrow: bool = False,
    saturate: Callable[[int, int, str], int] = saturated,
) -> Callable[..., int]:
    """Return a reference. If ``narrow``, min and max use only the lower 32 bits of the result, sign-extended."""

    def reference(a: int, b: int, c: int) -> int:
        x = primary(selected(a, of_a, kinds[1]), selected(b, of_b, kinds[2]))
        if sat:
            x = saturate(x, {"": 32, "b": 8, "h": 16}[to[1:2]], kinds[0])
        if to:
            return merged(x, to, c)
        if secondary in ("min", "max"):
            x = extended(x, 32 if narrow else 64, "s32")
            x = x if kinds[0] == "s32" else x % 2**64
        return SECONDARY[secondary](x, extended(c, 32, kinds[0])) if secondary else x

    return reference


def snippet(text: str, reference: Callable[..., int]) -> Snippet:
    return Snippet(text, "b32", ("b32", "b32", "b32"), reference)


@pytest.mark.parametrize("name", ["vadd", "vsub", "vabsdiff", "vmin", "vmax"])
def test_scalar_operations(name: str) -> None:
    snippets = []
    parts = itertools.cycle(itertools.product(SELECTORS, SELECTORS))
    for kinds, sat, (secondary, to) in itertools.product(
        TYPES, (False, True), [("", ""), ("add", ""), ("min", ""), ("max", ""), ("", ".b2"), ("", ".h0")]
    ):
        of_a, of_b = next(parts)
        head = f"{name}.{'.'.join(kinds)}{'.sat' if sat else ''}{f'.{secondary}' if secondary else ''}"
        text = f"{head} %d{to}, %a{of_a}, %b{of_b}{', %c' if secondary or to else ''};"
        narrow = name in ("vadd", "vsub")
        snippets.append(snippet(text, scalar(PRIMARY[name], kinds, sat, secondary, to, of_a, of_b, narrow=narrow)))
    assert not disagreements(snippets, OPERANDS)


@pytest.mark.parametrize(("name", "mode"), [*itertools.product(("vshl", "vshr"), ("clamp", "wrap"))])
def test_shifts(name: str, mode: str) -> None:
    def shifted(a: int, b: int) -> int:
        by = min(b, 32) if mode == "clamp" else b & 31
        return a << by if name == "vshl" else a >> by

    def saturate(x: int, _size: int, kind: str) -> int:
        """Saturate 34 bits to 32 bits, even if only one byte or 16-bit half of the result is used."""
        return clamped(extended(x, 34, "s32"), 32, kind)

    snippets = [
        snippet(
            f"{name}.{d}.{a}.u32{sat}.{mode}{f'.{secondary}' if secondary else ''} %d{to}, %a{of_a}, %b{of_b}"
            f"{', %c' if secondary or to else ''};",
            scalar(shifted, (d, a, "u32"), bool(sat), secondary, to, of_a, of_b, narrow=bool(sat), saturate=saturate),
        )
        for (d, a, _), sat, (secondary, to), (of_a, of_b) in itertools.product(
            TYPES[::2],
            ("", ".sat"),
            [("", ""), ("add", ""), ("min", ""), ("max", ""), ("", ".b1")],
            [("", ""), (".h0", ".b0"), ("", ".b1")],
        )
    ]
    assert not disagreements(
        snippets, [(a, b, c) for a, _, c in OPERANDS[::3] for b in (0, 1, 7, 31, 32, 33, 255, 0xFFFFFF02)]
    )


def test_comparisons() -> None:
    snippets = []
    for (compare, holds), (_, a, b), (secondary, to) in itertools.product(
        COMPARISONS.items(), TYPES[:4], [("", ""), ("add", ""), ("min", ""), ("max", ""), ("", ".h1")]
    ):
        # c has the type of a.
        reference = scalar(as_number(holds), (a, a, b), False, secondary, to, ".h1", "")
        third = ", %c" if secondary or to else ""
        text = f"vset.{a}.{b}.{compare}{f'.{secondary}' if secondary else ''} %d{to}, %a.h1, %b{third};"
        snippets.append(snippet(text, reference))
    assert not disagreements(snippets, OPERANDS)


@pytest.mark.parametrize("parts", [(".b1", ".h1"), ("", "")], ids=["parts", "whole"])
def test_multiply_add(parts: tuple[str, str]) -> None:
    of_a, of_b = parts

    def of(
        a_kind: str, b_kind: str, minus: tuple[bool, bool, bool], po: bool, sat: bool, shift: int
    ) -> Callable[..., int]:
        def reference(a: int, b: int, c: int) -> int:
            """32-bit operands and c are signed. An unsigned result is shifted as an unsigned 64-bit number."""
            product = selected(a, of_a, a_kind if of_a else "s32") * selected(b, of_b, b_kind if of_b else "s32")
            kind = "s32" if "s32" in (a_kind, b_kind) or minus[0] != minus[1] or minus[2] else "u32"
            c = extended(c, 32, "s32")
            x = (-product if minus[0] != minus[1] else product) + (-c if minus[2] else c) + po
            x = (x % 2**64 if kind == "u32" and shift else x) >> shift
            return clamped(x, 32, kind) if sat else x

        return reference

    snippets = []
    for (d, a, b), minus, po, sat, (scale, shift) in itertools.product(
        TYPES,
        [(False, False, False), (True, False, False), (False, True, False), (True, True, False), (False, False, True)],
        (False, True),
        (False, True),
        [("", 0), (".shr7", 7), (".shr15", 15)],
    ):
        if po and any(minus):
            continue
        signs = ["-" if m else "" for m in minus]
        head = f"vmad.{d}.{a}.{b}{'.po' if po else ''}{'.sat' if sat else ''}{scale}"
        text = f"{head} %d, {signs[0]}%a{of_a}, {signs[1]}%b{of_b}, {signs[2]}%c;"
        snippets.append(snippet(text, of(a, b, minus, po, sat, shift)))
    assert not disagreements(snippets, OPERANDS)


# (instruction, a, b, c, H100's result), where the result differs from the ISA.
BY_H100 = [
    ("vadd.u32.u32.u32.min %d, %a, %b.b3, %c;", 0x80007FFF, 0x1, 0xFEDCBA98, 0xFEDCBA98),
    ("vadd.u32.u32.u32.max %d, %a, %b.h1, %c;", 0x80007FFF, 0x1, 0xFEDCBA98, 0x80007FFF),
    ("vadd.u32.u32.u32.sat.min %d, %a.b3, %b, %c;", 0x7FFF8000, 0xFFFFFFFF, 0x7FFFFFFF, 0x7E),
    ("vadd.u32.u32.s32.sat %d, %a, %b.b3;", 0xFFFFFFFF, 0x7FFF8000, 0, 0x7E),
    ("vadd.u32.u32.s32.sat %d.b2, %a.b0, %b.b3, %c;", 0x0, 0x80007FFF, 0x80000000, 0x80FF0000),
    ("vadd.u32.s32.u32.max %d, %a.b3, %b.h1, %c;", 0x80007FFF, 0x0, 0x80, 0xFFFFFF80),
    ("vsub.u32.u32.u32.max %d, %a, %b.h1, %c;", 0x0, 0xFF00FF, 0xFFFFFFFF, 0xFFFFFF01),
    ("vsub.u32.u32.u32.sat %d.h0, %a.b3, %b.h1, %c;", 0x0, 0xFF00FF, 0xFFFFFFFF, 0xFFFFFFFF),
    ("vsub.u32.u32.s32.sat %d, %a, %b.b3;", 0xFFFFFFFF, 0x80007FFF, 0, 0x7F),
    ("vabsdiff.u32.u32.s32.sat.add %d, %a, %b.h1, %c;", 0xFFFFFFFF, 0x80007FFF, 0x80000000, 0x80007FFF),
    ("vabsdiff.u32.s32.u32.sat.min %d, %a, %b, %c;", 0x80007FFF, 0x80007FFF, 0x80000000, 0x80000000),
    ("vmin.u32.u32.s32.max %d, %a.h1, %b.h1, %c;", 0x0, 0x80007FFF, 0x80000000, 0xFFFF8000),
    ("vmin.u32.s32.u32.sat %d.b2, %a, %b.b3, %c;", 0x80007FFF, 0x0, 0x80, 0xFF0080),
    ("vmax.u32.s32.s32.min %d, %a.b0, %b.b3, %c;", 0x80, 0x80007FFF, 0x80000000, 0x80000000),
    ("vset.s32.u32.eq.min %d, %a.h1, %b, %c;", 0x0, 0x1, 0xFEDCBA98, 0xFEDCBA98),
    ("vset.s32.s32.ne.max %d, %a.h1, %b, %c;", 0x0, 0x1, 0xFEDCBA98, 0x1),
    ("vshl.u32.u32.u32.sat.clamp %d, %a, %b;", 0x7F, 0x1F, 0, 0x0),
    ("vshl.u32.u32.u32.sat.wrap %d.b1, %a, %b, %c;", 0x1, 0x1F, 0x80, 0x80),
    ("vshr.u32.u32.u32.sat.clamp %d.b1, %a, %b, %c;", 0xFF00FF, 0x1, 0x80, 0x7F80),
    ("vmad.u32.u32.u32.shr7 %d, %a.b1, %b.h1, %c;", 0x0, 0x1, 0xFEDCBA98, 0xFFFDB975),
    ("vmad.u32.u32.u32.sat %d, %a.b1, %b.h1, %c;", 0x0, 0x1, 0xFEDCBA98, 0x0),
    ("vmad.u32.u32.u32.sat.shr15 %d, -%a.b1, -%b.h1, %c;", 0x0, 0x1, 0xFEDCBA98, 0xFFFFFFFF),
    ("vmad.u32.u32.u32.sat %d, %a.b1, %b.h1, -%c;", 0x0, 0x1, 0xFEDCBA98, 0x1234568),
]


def test_scalar_instructions_agree_with_an_h100() -> None:
    operands = [tuple(values) for _, *values, _ in BY_H100]
    actual = results([snippet(text, int) for text, *_ in BY_H100], operands)
    wrong = [
        f"{text} of {a:#x}, {b:#x}, {c:#x}: {int(actual[k, k]):#x}, not {expected:#x}"
        for k, (text, a, b, c, expected) in enumerate(BY_H100)
        if int(actual[k, k]) != expected
    ]
    assert not wrong


def simd(
    parts: int,
    primary: Callable[[int, int], int],
    kinds: tuple[str, str, str],
    sat: bool,
    adds: bool,
    mask: str,
    of_a: str,
    of_b: str,
) -> Callable[..., int]:
    size = 32 // parts

    def reference(a: int, b: int, c: int) -> int:
        both = b << 32 | a
        d = c
        for k in map(int, mask[2:]):
            x, y = (
                extended(both >> size * int(text[2:][::-1][k]), size, kind)
                for text, kind in ((of_a, kinds[1]), (of_b, kinds[2]))
            )
            t = primary(x, y)
            if sat:
                t = clamped(t, size, kinds[0])
            field = (2**size - 1) << size * k
            d = d + t if adds else t << size * k & field | d & ~field
        return d

    return reference


OWN = {2: (".h10", ".h32"), 4: (".b3210", ".b7654")}
MIXED = {2: (".h30", ".h12"), 4: (".b7025", ".b1164")}
MASKS = {2: (".h10", ".h0", ".h1"), 4: (".b3210", ".b20", ".b3")}


def written(selector: str, usual: str) -> str:
    """Return a selector as it is written in PTX, or "" for the default selector."""
    return "" if selector == usual else selector


@pytest.mark.parametrize(
    ("parts", "name"), [*itertools.product((2, 4), ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"))]
)
def test_simd_operations(parts: int, name: str) -> None:
    snippets = []
    for kinds, (sat, adds), mask, (of_a, of_b) in itertools.product(
        TYPES, [(False, False), (True, False), (False, True)], MASKS[parts], (OWN[parts], MIXED[parts])
    ):
        to, a, b = map(written, (mask, of_a, of_b), (MASKS[parts][0], *OWN[parts]))
        shown = f"%d{to}, %a{a}, %b{b}, %c;"
        text = f"{name}{parts}.{'.'.join(kinds)}{'.sat' if sat else ''}{'.add' if adds else ''} {shown}"
        snippets.append(snippet(text, simd(parts, PRIMARY[name], kinds, sat, adds, mask, of_a, of_b)))
    assert not disagreements(snippets, OPERANDS)


@pytest.mark.parametrize("parts", [2, 4])
def test_simd_comparisons(parts: int) -> None:
    snippets = []
    for (compare, holds), (_, a, b), adds, mask in itertools.product(
        COMPARISONS.items(), TYPES[:4], (False, True), MASKS[parts]
    ):
        reference = simd(
            parts,
            as_number(holds),
            ("u32", a, b),
            False,
            adds,
            mask,
            *OWN[parts],
        )
        text = f"vset{parts}.{a}.{b}.{compare}{'.add' if adds else ''} %d{mask}, %a, %b, %c;"
        snippets.append(snippet(text, reference))
    assert not disagreements(snippets, OPERANDS)
