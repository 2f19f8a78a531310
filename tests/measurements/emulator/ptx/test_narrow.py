"""Instructions of sm_100 are right: floats of four to eight bits, f32 arithmetic with 16-bit operands, bulk zeroing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import HEAD, Snippet, disagreements, results, run_ptx

from search_spaces.hardware.dtypes import BF16

pytestmark = needs_compiler

# (exponent bits, mantissa bits) of types that have neither infinities nor NaN.
NARROW = {"e2m1": (2, 1), "e2m3": (2, 3), "e3m2": (3, 2)}
FLOATS = [
    0.0, -0.0, 0.25, 0.3125, -0.75, 1.0, -1.25, 1.75, 2.5, 3.5, -5.0, 5.5, 6.5, 7.4, 7.75, 26.0, 30.0, -1e30, math.inf,
    -math.inf, math.nan, 2.0**-130, 2.0**-127, 1.5 * 2.0**-127, 2.0**-126, 3.0e38, 1e-3, 1.01,
]  # fmt: skip


def f32_bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


def values(kind: str) -> list[float]:
    """Return the value of each code whose sign bit is 0."""
    exponents, mantissas = NARROW[kind]
    bias = 2 ** (exponents - 1) - 1
    return [
        (m / 2**mantissas) * 2.0 ** (1 - bias) if e == 0 else (1 + m / 2**mantissas) * 2.0 ** (e - bias)
        for e in range(2**exponents)
        for m in range(2**mantissas)
    ]


def nearest(kind: str, x: float, relu: bool) -> int:
    """Return the code of the nearest number, with ties to even. NaN becomes the largest number."""
    known = values(kind)
    if math.isnan(x):
        return len(known) - 1
    sign = 0 if relu or math.copysign(1.0, x) > 0 else len(known)
    magnitude = 0.0 if relu and x < 0 else min(abs(x), known[-1])
    return sign | min(range(len(known)), key=lambda code: (abs(known[code] - magnitude), code % 2))


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("kind", NARROW)
def test_pairs_of_narrow_numbers(kind: str, relu: str) -> None:
    width = 4 if kind == "e2m1" else 8

    def to(a: int, b: int) -> int:
        high, low = (nearest(kind, float(np.uint32(x).view(np.float32)), bool(relu)) for x in (a, b))
        return high << width | low

    pairs = [(f32_bits(a), f32_bits(b)) for a, b in itertools.product(FLOATS, FLOATS)]
    form = f"cvt.rn.satfinite{relu}.{kind}x2.f32"
    text = f"{form} %d, %a, %b;" if width == 8 else f"{{.reg .b8 %n; {form} %n, %a, %b; cvt.u16.u8 %d, %n;}}"
    assert not disagreements([Snippet(text, "b16", ("b32", "b32"), to)], pairs)

    def back(a: int) -> int:
        known = values(kind)
        halves = 0
        for k in range(2):
            code = a >> width * k & 2 * len(known) - 1
            x = known[code % len(known)] * (-1 if code >= len(known) else 1)
            halves |= int(np.float16(0.0 if relu and code >= len(known) else x).view(np.uint16)) << 16 * k
        return halves

    codes = [(k,) for k in range(0, 2 ** (2 * width), 1 if width == 4 else 61)]
    form = f"cvt.rn{relu}.f16x2.{kind}x2"
    text = f"{form} %d, %a;" if width == 8 else f"{{.reg .b8 %n; cvt.u8.u16 %n, %a; {form} %d, %n;}}"
    assert not disagreements([Snippet(text, "b32", ("b16",), back)], codes)


def scale(x: float, up: bool, saturates: bool) -> int:
    """Round |x| up or down to a power of two, and return its ue8m0 code. A code means 2^(code - 127)."""
    if math.isnan(x):
        return 255
    x = abs(x)
    codes = [code for code in range(255) if (2.0 ** (code - 127) >= x if up else 2.0 ** (code - 127) <= x)]
    if math.isinf(x) or (up and not codes):
        return 254 if saturates else 255
    return (codes[0] if up else codes[-1]) if codes else 0


@pytest.mark.parametrize(("rounding", "satfinite"), [*itertools.product(("rz", "rp"), ("", ".satfinite"))])
def test_scales(rounding: str, satfinite: str) -> None:
    up = rounding == "rp"

    def of_f32(a: int, b: int) -> int:
        high, low = (scale(float(np.uint32(x).view(np.float32)), up, bool(satfinite)) for x in (a, b))
        return high << 8 | low

    pairs = [(f32_bits(a), f32_bits(b)) for a, b in zip(FLOATS, FLOATS[::-1], strict=True)]
    text = f"cvt.{rounding}{satfinite}.ue8m0x2.f32 %d, %a, %b;"
    assert not disagreements([Snippet(text, "b16", ("b32", "b32"), of_f32)], pairs)

    def of_bf16(a: int) -> int:
        high, low = (float(BF16.load(np.array([x], np.uint16))[0]) for x in (a >> 16, a & 0xFFFF))
        return scale(high, up, bool(satfinite)) << 8 | scale(low, up, bool(satfinite))

    halves = [int(x) for x in BF16.store(np.array(FLOATS, np.float32)).view(np.uint16)]
    words = [(high << 16 | low,) for high, low in zip(halves, halves[::-1], strict=True)]
    text = f"cvt.{rounding}{satfinite}.ue8m0x2.bf16x2 %d, %a;"
    assert not disagreements([Snippet(text, "b16", ("b32",), of_bf16)], words)


def test_scales_as_numbers() -> None:
    codes = [(a << 8 | b,) for a, b in itertools.product((0, 1, 127, 200, 254, 255), repeat=2)]
    (values,) = results([Snippet("cvt.rn.bf16x2.ue8m0x2 %d, %a;", "b32", ("b16",), int)], codes)
    for (code,), actual in zip(codes, values, strict=True):
        for k in range(2):
            byte, half = code >> 8 * k & 255, int(actual) >> 16 * k & 0xFFFF
            x = float(BF16.load(np.array([half], np.uint16))[0])
            assert math.isnan(x) if byte == 255 else x == 2.0 ** (byte - 127)


HALVES = [0.0, -0.0, 1.0, -1.5, 3.0, 65504.0, 2.0**-24, math.inf, math.nan]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_with_halves(kind: str) -> None:
    def widened(bits: int) -> np.float32:
        if kind == "f16":
            return np.float32(np.uint16(bits).view(np.float16))
        return np.float32(BF16.load(np.array([bits], np.uint16))[0])

    stored = np.array(HALVES, np.float32)
    halves = (
        stored.astype(np.float16).view(np.uint16) if kind == "f16" else BF16.store(stored).view(np.uint16)
    ).tolist()
    operations: dict[str, Callable[..., np.float32]] = {
        f"add.rn.f32.{kind} %d, %a, %c;": lambda a, b, c: a + c,
        f"sub.rn.f32.{kind} %d, %a, %c;": lambda a, b, c: a - c,
        f"fma.rn.f32.{kind} %d, %a, %b, %c;": lambda a, b, c: np.float32(float(a) * float(b) + float(c)),
    }

    def of(f: Callable[..., np.float32]) -> Callable[..., int]:
        def reference(a: int, b: int, c: int) -> int:
            with np.errstate(all="ignore"):
                y = f(widened(a), widened(b), np.uint32(c).view(np.float32))
            return 0x7FFFFFFF if np.isnan(y) else int(np.float32(y).view(np.uint32))

        return reference

    operands = [(a, b, f32_bits(c)) for a, b, c in itertools.product(halves, halves[2:5], (0.5, -3.0, 1e-30, math.inf))]
    snippets = [Snippet(text, "b32", ("b16", "b16", "b32"), of(f)) for text, f in operations.items()]
    assert not disagreements(snippets, operands)


@pytest.mark.parametrize(("name", "chosen"), [("min", np.fmin), ("max", np.fmax)])
def test_the_extreme_of_three_magnitudes(name: str, chosen: np.ufunc) -> None:
    def reference(a: int, b: int, c: int) -> int:
        x, y, z = (np.abs(np.uint32(v).view(np.float32)) for v in (a, b, c))
        extreme = chosen(chosen(x, y), z)
        return 0x7FFFFFFF if np.isnan(extreme) else int(extreme.view(np.uint32))

    few = [f32_bits(x) for x in (0.0, -1.0, 2.5, -math.inf, math.nan)]
    snippet = Snippet(f"{name}.abs.f32 %d, %a, %b, %c;", "b32", ("b32",) * 3, reference)
    assert not disagreements([snippet], [*itertools.product(few, repeat=3)])


ZEROS = """{head}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.shared .align 16 .b8 tile[256];
.reg .b64 %out, %size, %x; .reg .b32 %t, %s; .reg .pred %p;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
mul.wide.u32 %x, %t, 8; add.u64 %out, %out, %x; mad.lo.u32 %s, %t, 8, %s;
mov.u64 %x, 7; st.shared.u64 [%s], %x;
bar.sync 0;
setp.ne.u32 %p, %t, 0; mov.u64 %size, {size};
@!%p st.bulk.weak.shared::cta [%s+{at}], %size, 0;
{barrier}
ld.shared.u64 %x, [%s]; st.global.u64 [%out], %x; ret; }}
"""


@pytest.mark.parametrize(
    ("at", "size", "barrier", "kind"),
    [
        (16, 128, "bar.sync 0;", ""),
        (16, 128, "", "shared_race"),
        (4, 128, "bar.sync 0;", "misaligned_access"),
        (16, 100, "bar.sync 0;", "misaligned_access"),
        (16, 256, "bar.sync 0;", "out_of_bounds_shared"),
    ],
)
def test_zeros_in_bulk(at: int, size: int, barrier: str, kind: str) -> None:
    text = ZEROS.format(head=HEAD.replace("sm_90", "sm_100"), at=at, size=size, barrier=barrier)
    done = run_ptx(text, 32, np.zeros(1, np.uint64))
    if kind:
        assert kind in {f.kind.value for f in done.findings}
        return
    assert done.ok, done.reason
    expected = np.full(32, 7, np.uint64)
    expected[at // 8 : (at + size) // 8] = 0
    np.testing.assert_array_equal(done.outputs["out"].view(np.uint64), expected)
