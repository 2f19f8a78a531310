"""Video instructions against the pseudo-code of the PTX ISA (9.7.17), written here in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from needs import needs_compiler
from ptx_snippets import Snippet, disagreements

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


def saturated(x: int, size: int, kind: str) -> int:
    low, high = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if kind == "s32" else (0, 2**size - 1)
    return max(low, min(high, x))


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
) -> Callable[..., int]:
    def reference(a: int, b: int, c: int) -> int:
        x = primary(selected(a, of_a, kinds[1]), selected(b, of_b, kinds[2]))
        if sat:
            x = saturated(x, {"": 32, "b": 8, "h": 16}[to[1:2]], kinds[0])
        if to:
            return merged(x, to, c)
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
        snippets.append(snippet(text, scalar(PRIMARY[name], kinds, sat, secondary, to, of_a, of_b)))
    assert not disagreements(snippets, OPERANDS)


@pytest.mark.parametrize(("name", "mode"), [*itertools.product(("vshl", "vshr"), ("clamp", "wrap"))])
def test_shifts(name: str, mode: str) -> None:
    def shifted(a: int, b: int) -> int:
        by = min(b, 32) if mode == "clamp" else b & 31
        return a << by if name == "vshl" else a >> by

    snippets = [
        snippet(
            f"{name}.{d}.{a}.u32{sat}.{mode}{f'.{secondary}' if secondary else ''} %d{to}, %a{of_a}, %b{of_b}"
            f"{', %c' if secondary or to else ''};",
            scalar(shifted, (d, a, "u32"), bool(sat), secondary, to, of_a, of_b),
        )
        for (d, a, _), sat, (secondary, to), (of_a, of_b) in itertools.product(
            TYPES[::2], ("", ".sat"), [("", ""), ("add", ""), ("", ".b1")], [("", ""), (".h0", ".b0"), ("", ".b1")]
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
        reference = scalar(as_number(holds), ("u32", a, b), False, secondary, to, ".h1", "")
        third = ", %c" if secondary or to else ""
        text = f"vset.{a}.{b}.{compare}{f'.{secondary}' if secondary else ''} %d{to}, %a.h1, %b{third};"
        snippets.append(snippet(text, reference))
    assert not disagreements(snippets, OPERANDS)


def test_multiply_add() -> None:
    def of(
        a_kind: str, b_kind: str, minus: tuple[bool, bool, bool], po: bool, sat: bool, shift: int
    ) -> Callable[..., int]:
        def reference(a: int, b: int, c: int) -> int:
            product = selected(a, ".b1", a_kind) * selected(b, ".h1", b_kind)
            intermediate = "s32" if "s32" in (a_kind, b_kind) or minus[0] != minus[1] else "u32"
            final = "s32" if intermediate == "s32" or minus[2] else "u32"
            c = extended(c, 32, intermediate)
            x = (-product if minus[0] != minus[1] else product) + (-c if minus[2] else c) + po
            x >>= shift
            return saturated(x, 32, final) if sat else x

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
        text = f"{head} %d, {signs[0]}%a.b1, {signs[1]}%b.h1, {signs[2]}%c;"
        snippets.append(snippet(text, of(a, b, minus, po, sat, shift)))
    assert not disagreements(snippets, OPERANDS)


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
                t = saturated(t, size, kinds[0])
            field = (2**size - 1) << size * k
            d = d + t if adds else t << size * k & field | d & ~field
        return d

    return reference


OWN = {2: (".h10", ".h32"), 4: (".b3210", ".b7654")}
MIXED = {2: (".h30", ".h12"), 4: (".b7025", ".b1164")}
MASKS = {2: (".h10", ".h0", ".h1"), 4: (".b3210", ".b20", ".b3")}


def written(selector: str, usual: str) -> str:
    """Return a selector as it is written: not at all where it is the usual one."""
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
