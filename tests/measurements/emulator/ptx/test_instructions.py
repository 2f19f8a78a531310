"""PTX instructions agree in corner cases with exact arithmetic in Python and numpy."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import HEAD, Snippet, disagreements, results, run_ptx

pytestmark = needs_compiler

B32 = (0, 1, 2, 3, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x12345678, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF)
B64 = (*B32, 0x123456789ABCDEF0, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2)


def signed(x: int, bits: int) -> int:
    return x - 2**bits if x >> (bits - 1) else x


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else -1


def remainder(a: int, b: int) -> int:
    return a - quotient(a, b) * b if b else -1  # H100 results for division by zero


def f32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])


def bits_of(x: float) -> int:
    with np.errstate(all="ignore"):
        return int(np.float32(x).view(np.uint32)) if x == x else 0x7FFFFFFF


def of_type(kind: str) -> Callable[[int], int]:
    bits = int(kind[1:])
    return (lambda x: signed(x, bits)) if kind[0] == "s" else (lambda x: x)


def integers(kind: str) -> list[Snippet]:
    bits, read = int(kind[1:]), of_type(kind)
    b = f"b{bits}"

    def two(name: str, f: Callable[[int, int], int]) -> Snippet:
        return Snippet(f"{name}.{kind} %d, %a, %b;", b, (b, b), lambda x, y: f(read(x), read(y)))

    def three(name: str, f: Callable[[int, int, int], int]) -> Snippet:
        return Snippet(f"{name}.{kind} %d, %a, %b, %c;", b, (b, b, b), lambda x, y, z: f(read(x), read(y), read(z)))

    values = [
        two("add", lambda x, y: x + y),
        two("sub", lambda x, y: x - y),
        two("mul.lo", lambda x, y: x * y),
        two("mul.hi", lambda x, y: x * y >> bits),
        two("min", min),
        two("max", max),
        two("div", lambda x, y: quotient(x, y)),
        two("rem", lambda x, y: remainder(x, y)),
        three("mad.lo", lambda x, y, z: x * y + z),
        three("mad.hi", lambda x, y, z: (x * y >> bits) + z),
        three("sad", lambda x, y, z: z + abs(x - y)),
    ]
    shift = ("b32",)
    values.append(Snippet(f"shr.{kind} %d, %a, %b;", b, (b, *shift), lambda x, n: read(x) >> min(n, bits)))
    values.append(Snippet(f"shl.b{bits} %d, %a, %b;", b, (b, *shift), lambda x, n: x << min(n, 64)))
    if kind[0] == "s":
        values.append(Snippet(f"abs.{kind} %d, %a;", b, (b,), lambda x: abs(read(x))))
        values.append(Snippet(f"neg.{kind} %d, %a;", b, (b,), lambda x: -x))
    if bits < 64:
        wide = f"b{2 * bits}"
        values.append(Snippet(f"mul.wide.{kind} %d, %a, %b;", wide, (b, b), lambda x, y: read(x) * read(y)))
        values.append(
            Snippet(f"mad.wide.{kind} %d, %a, %b, %c;", wide, (b, b, wide), lambda x, y, z: read(x) * read(y) + z)
        )
    return values


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integer_arithmetic(bits: int) -> None:
    values = B64 if bits == 64 else B32
    operands = [
        (a, b, c) for (a, b), c in zip(itertools.product(values, values), itertools.cycle(values), strict=False)
    ]
    assert disagreements([*integers(f"s{bits}"), *integers(f"u{bits}")], operands) == []


def extract(a: int, pos: int, length: int, bits: int, is_signed: bool) -> int:
    if bits == 32:  # ptxas 13.5 implements the 64-bit instruction with shifts that do not clamp the shift amount
        pos, length = pos & 0xFF, length & 0xFF
    if length == 0:
        return 0
    top = min(pos + length - 1, bits - 1)
    sign = is_signed and a >> top & 1
    y = 0
    for k in range(bits):
        y |= (a >> (pos + k) & 1 if k < length and pos + k < bits else int(bool(sign))) << k
    return y


def permuted(a: int, b: int, selector: int) -> int:
    both = (b << 32 | a).to_bytes(8, "little")
    out = bytearray()
    for k in range(4):
        s = selector >> 4 * k & 15
        byte = both[s & 7]
        out.append((255 if byte & 128 else 0) if s & 8 else byte)
    return int.from_bytes(out, "little")


def lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k for k in range(32))


def dot4(a: int, b: int, c: int, is_signed: bool) -> int:
    x, y = a.to_bytes(4, "little"), b.to_bytes(4, "little")
    return c + sum((signed(p, 8) * signed(q, 8)) if is_signed else p * q for p, q in zip(x, y, strict=True))


BITS = [
    Snippet("popc.b32 %d, %a;", "b32", ("b32",), lambda a: a.bit_count()),
    Snippet("popc.b64 %d, %a;", "b32", ("b64",), lambda a: a.bit_count()),
    Snippet("clz.b32 %d, %a;", "b32", ("b32",), lambda a: 32 - a.bit_length()),
    Snippet("clz.b64 %d, %a;", "b32", ("b64",), lambda a: 64 - a.bit_length()),
    Snippet("brev.b32 %d, %a;", "b32", ("b32",), lambda a: int(f"{a:032b}"[::-1], 2)),
    Snippet("brev.b64 %d, %a;", "b64", ("b64",), lambda a: int(f"{a:064b}"[::-1], 2)),
    Snippet("bfind.u32 %d, %a;", "b32", ("b32",), lambda a: a.bit_length() - 1),
    Snippet("bfind.s32 %d, %a;", "b32", ("b32",), lambda a: (a if a < 2**31 else ~a & 2**32 - 1).bit_length() - 1),
    Snippet("bfind.shiftamt.u32 %d, %a;", "b32", ("b32",), lambda a: 32 - a.bit_length() if a else -1),
    Snippet("bfe.u32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), lambda a, b, c: extract(a, b, c, 32, False)),
    Snippet("bfe.s32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), lambda a, b, c: extract(a, b, c, 32, True)),
    Snippet("bfe.s64 %d, %a, %b, %c;", "b64", ("b64", "b32", "b32"), lambda a, b, c: extract(a, b, c, 64, True)),
    Snippet("bfe.u64 %d, %a, %b, %c;", "b64", ("b64", "b32", "b32"), lambda a, b, c: extract(a, b, c, 64, False)),
    Snippet("bfi.b32 %d, %a, %b, %c, 7;", "b32", ("b32", "b32", "b32"),
            lambda a, b, c: sum(((a >> (k - (c & 255)) if c & 255 <= k < (c & 255) + 7 else b >> k) & 1) << k
                                for k in range(32))),
    Snippet("bfi.b64 %d, %a, %a, %b, %c;", "b64", ("b64", "b32", "b32"),
            lambda a, b, c: a & ~(2**min(c, 64) - 1 << min(b, 64)) | (a & 2**min(c, 64) - 1) << min(b, 64)),
    Snippet("prmt.b32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), permuted),
    Snippet("lop3.b32 %d, %a, %b, %c, 0x96;", "b32", ("b32", "b32", "b32"), lambda a, b, c: lop3(a, b, c, 0x96)),
    Snippet("lop3.b32 %d, %a, %b, %c, 0xE8;", "b32", ("b32", "b32", "b32"), lambda a, b, c: lop3(a, b, c, 0xE8)),
    Snippet("shf.l.wrap.b32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"),
            lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    Snippet("shf.r.wrap.b32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), lambda a, b, c: (b << 32 | a) >> (c & 31)),
    Snippet("shf.l.clamp.b32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"),
            lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
    Snippet("dp4a.u32.u32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), lambda a, b, c: dot4(a, b, c, False)),
    Snippet("dp4a.s32.s32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), lambda a, b, c: dot4(a, b, c, True)),
    Snippet("mul24.lo.s32 %d, %a, %b;", "b32", ("b32", "b32"),
            lambda a, b: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24)),
    Snippet("mad24.hi.u32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"),
            lambda a, b, c: ((a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16) + c),
    Snippet("add.sat.s32 %d, %a, %b;", "b32", ("b32", "b32"),
            lambda a, b: max(-(2**31), min(2**31 - 1, signed(a, 32) + signed(b, 32)))),
    Snippet("and.b64 %d, %a, %b;", "b64", ("b64", "b64"), lambda a, b: a & b),
    Snippet("xor.b16 %d, %a, %b;", "b16", ("b16", "b16"), lambda a, b: a ^ b),
    Snippet("not.b32 %d, %a;", "b32", ("b32",), lambda a: ~a),
    Snippet("cnot.b32 %d, %a;", "b32", ("b32",), lambda a: int(a == 0)),
    Snippet("{ .reg .u32 %l, %h; add.cc.u32 %l, %a, %b; addc.u32 %h, %c, 5; mov.b32 %d, %h; }", "b32",
            ("b32", "b32", "b32"), lambda a, b, c: c + 5 + (a + b >> 32)),
    Snippet("{ .reg .u32 %l, %h; sub.cc.u32 %l, %a, %b; subc.u32 %h, %c, 5; mov.b32 %d, %h; }", "b32",
            ("b32", "b32", "b32"), lambda a, b, c: c - 5 - int(a < b)),
    # sub.cc sets the carry flag if there is no borrow, because it adds the complement and one.
    Snippet("{ .reg .u32 %l, %h; sub.cc.u32 %l, %a, %b; addc.u32 %h, %c, 5; mov.b32 %d, %h; }", "b32",
            ("b32", "b32", "b32"), lambda a, b, c: c + 5 + int(a >= b)),
    Snippet("{ .reg .u32 %l, %h; add.cc.u32 %l, %a, %b; subc.u32 %h, %c, 5; mov.b32 %d, %h; }", "b32",
            ("b32", "b32", "b32"), lambda a, b, c: c - 6 + (a + b >> 32)),
    Snippet("{ .reg .u64 %l, %h; sub.cc.u64 %l, %a, %b; subc.cc.u64 %l, %c, %a; addc.u64 %h, %b, 5; mov.b64 %d, %h; }",
            "b64", ("b64", "b64", "b64"), lambda a, b, c: b + 5 + int(c - a - int(a < b) >= 0)),
    Snippet("selp.b32 %d, %a, %b, %c;", "b32", ("b32", "b32", "pred"), lambda a, b, c: a if c else b),
    Snippet("slct.b32.s32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), lambda a, b, c: a if c < 2**31 else b),
    Snippet("setp.lt.s32 %d, %a, %b;", "pred", ("b32", "b32"), lambda a, b: int(signed(a, 32) < signed(b, 32))),
    Snippet("setp.hs.u32 %d, %a, %b;", "pred", ("b32", "b32"), lambda a, b: int(a >= b)),
    Snippet("setp.ne.and.b64 %d, %a, %b, !%c;", "pred", ("b64", "b64", "pred"), lambda a, b, c: int(a != b and not c)),
    Snippet("set.gt.u32.s32 %d, %a, %b;", "b32", ("b32", "b32"), lambda a, b: -int(signed(a, 32) > signed(b, 32))),
    Snippet("{ .reg .b16 %l, %h; mov.b32 {%l, %h}, %a; mov.b32 %d, {%h, %l}; }", "b32", ("b32",),
            lambda a: a >> 16 | (a & 0xFFFF) << 16),
]  # fmt: skip


def test_bits_and_selection() -> None:
    small = (0, 1, 3, 5, 8, 16, 31, 32, 40, 0x0123, 0x3210, 0xFEDC)
    operands = [(a, b, c) for a in B64[-8:] for b in (*small, 0x89ABCDEF) for c in small]
    assert disagreements(BITS, operands) == []


FLOATS = tuple(
    bits_of(x)
    for x in (0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 3.0, 1e-45, 1e-39, 1.17549435e-38, 3.4028235e38, 65504.0, 1e10, -2.5,
              math.inf, -math.inf, math.nan)
)  # fmt: skip


def rounded(x: Fraction, mode: str) -> float:
    """Round ``x`` to f32 towards zero, downwards or upwards."""
    size = abs(x)
    exponent = -126
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** (exponent - 23)
    away = (mode == "rm" and x < 0) or (mode == "rp" and x > 0)
    steps = -(-size // step) if away else size // step
    value = float(steps * step)
    if value > 3.4028234663852886e38:
        value = math.inf if away else 3.4028234663852886e38
    return math.copysign(value, -1 if x < 0 else 1)


def directed(name: str, mode: str, f: Callable[[Fraction, Fraction], Fraction]) -> Snippet:
    def reference(a: int, b: int) -> int:
        return bits_of(rounded(f(Fraction(f32(a)), Fraction(f32(b))), mode))

    return Snippet(f"{name}.{mode}.f32 %d, %a, %b;", "b32", ("b32", "b32"), reference)


def test_f32_arithmetic_to_nearest() -> None:
    def near(f: Callable[[np.float32, np.float32], np.float32]) -> Callable[[int, int], int]:
        def reference(a: int, b: int) -> int:
            with np.errstate(all="ignore"):
                return bits_of(float(f(np.float32(f32(a)), np.float32(f32(b)))))

        return reference

    def smallest(a: float, b: float, largest: bool) -> float:
        if a != a or b != b:
            return b if a != a else a
        if a == b == 0:
            return (a if math.copysign(1, a) > 0 else b) if largest else (a if math.copysign(1, a) < 0 else b)
        return max(a, b) if largest else min(a, b)

    two = ("b32", "b32")
    snippets = [
        Snippet("add.f32 %d, %a, %b;", "b32", two, near(lambda x, y: x + y)),
        Snippet("sub.rn.f32 %d, %a, %b;", "b32", two, near(lambda x, y: x - y)),
        Snippet("mul.f32 %d, %a, %b;", "b32", two, near(lambda x, y: x * y)),
        Snippet("div.rn.f32 %d, %a, %b;", "b32", two, near(lambda x, y: x / y)),
        Snippet("min.f32 %d, %a, %b;", "b32", two, lambda a, b: bits_of(smallest(f32(a), f32(b), False))),
        Snippet("max.f32 %d, %a, %b;", "b32", two, lambda a, b: bits_of(smallest(f32(a), f32(b), True))),
        Snippet("max.NaN.f32 %d, %a, %b;", "b32", two,
                lambda a, b: 0x7FFFFFFF if f32(a) != f32(a) or f32(b) != f32(b)
                else bits_of(smallest(f32(a), f32(b), True))),
        Snippet("copysign.f32 %d, %a, %b;", "b32", two, lambda a, b: a & 0x80000000 | b & 0x7FFFFFFF),
        Snippet("neg.f32 %d, %a;", "b32", ("b32",), lambda a: a ^ 0x80000000 if f32(a) == f32(a) else 0x7FFFFFFF),
        Snippet("abs.f32 %d, %a;", "b32", ("b32",), lambda a: a & 0x7FFFFFFF),
        Snippet("setp.ltu.f32 %d, %a, %b;", "pred", two, lambda a, b: int(not f32(a) >= f32(b))),
        Snippet("setp.ne.f32 %d, %a, %b;", "pred", two,
                lambda a, b: int(f32(a) != f32(b) and f32(a) == f32(a) and f32(b) == f32(b))),
        Snippet("setp.nan.f32 %d, %a, %b;", "pred", two, lambda a, b: int(f32(a) != f32(a) or f32(b) != f32(b))),
        Snippet("testp.subnormal.f32 %d, %a;", "pred", ("b32",), lambda a: int(0 < a & 0x7FFFFFFF < 0x800000)),
        Snippet("add.ftz.f32 %d, %a, %b;", "b32", two,
                lambda a, b: flushed(near(lambda x, y: x + y)(flushed(a), flushed(b)))),
        Snippet("mul.sat.f32 %d, %a, %b;", "b32", two, lambda a, b: saturated(near(lambda x, y: x * y)(a, b))),
        Snippet("sqrt.rn.f32 %d, %a;", "b32", ("b32",), lambda a: near(lambda x, y: np.sqrt(x))(a, 0)),
    ]  # fmt: skip
    assert disagreements(snippets, [(a, b, 0) for a in FLOATS for b in FLOATS]) == []


def flushed(bits: int) -> int:
    return bits & 0x80000000 if bits & 0x7F800000 == 0 else bits


def saturated(bits: int) -> int:
    x = f32(bits)
    return bits_of(min(max(x, 0.0), 1.0)) if x == x and x > 0 else 0


# (instruction, operand type, result type, bits of a NaN, bits of the H100's result)
NOT_A_NUMBER = [
    ("neg.f32", "b32", "b32", 0x7FFFFFFF, 0x7FFFFFFF),
    ("neg.f16", "b16", "b16", 0x7FFF, 0x7FFF),
    ("neg.bf16", "b16", "b16", 0x7FC0, 0x7FFF),
    ("abs.bf16", "b16", "b16", 0x7FC0, 0x7FFF),
    ("neg.bf16x2", "b32", "b32", 0x7FC03F80, 0x7FFFBF80),
    ("abs.bf16x2", "b32", "b32", 0xBF807FC0, 0x3F807FFF),
    ("neg.f64", "b64", "b64", 0x7FF8000000000000, 0x7FF8000000000000),
    ("cvt.rn.f32.f64", "b64", "b32", 0x7FF8000000000000, 0x7FC00000),
    ("cvt.rna.tf32.f32", "b32", "b32", 0x7F988A80, 0x7F988000),
    ("cvt.rna.tf32.f32", "b32", "b32", 0xFFCA0181, 0xFFCA0000),
    # The following results, of sums with -0 and of a shift, are derived from the machine code that ptxas generates.
    ("abs.f32", "b32", "b32", 0xFFC12345, 0x7FFFFFFF),
    ("neg.ftz.f32", "b32", "b32", 0xFFC12345, 0x7FFFFFFF),
    ("abs.f16x2", "b32", "b32", 0xFE013C00, 0x7FFF3C00),
    ("neg.f64", "b64", "b64", 0xFFF0000000000001, 0xFFF8000000000001),
    ("cvt.rn.f32.f64", "b64", "b32", 0xFFF4000020000000, 0xFFE00001),
    ("cvt.f32.bf16", "b16", "b32", 0xFFC1, 0xFFC10000),
]


def test_bits_of_nan_agree_with_an_h100() -> None:
    snippets = [Snippet(f"{name} %d, %a;", to, (of,), int) for name, of, to, *_ in NOT_A_NUMBER]
    actual = results(snippets, [(operand, 0, 0) for *_, operand, _ in NOT_A_NUMBER])
    assert [(row[0], hex(actual[k, k])) for k, row in enumerate(NOT_A_NUMBER)] == [
        (row[0], hex(row[-1])) for row in NOT_A_NUMBER
    ]


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_f32_arithmetic_in_directed_rounding(mode: str) -> None:
    finite = [bits_of(x) for x in (1.0, 0.1, 1 / 3, 3.0, -7.0, 1e-39, 16777217.0, -0.7, 1e20, 3.4e38)]
    snippets = [
        directed("add", mode, lambda x, y: x + y),
        directed("mul", mode, lambda x, y: x * y),
        directed("div", mode, lambda x, y: x / y),
    ]
    pairs = [(a, b, 0) for a in finite for b in finite if f32(a) + f32(b) != 0]
    assert disagreements(snippets, pairs) == []


def half(x: float) -> int:
    with np.errstate(all="ignore"):
        return int(np.float16(x).view(np.uint16)) if x == x else 0x7FFF


def f16(bits: int) -> float:
    return float(np.array(bits & 0xFFFF, dtype=np.uint16).view(np.float16))


def fused_half(a: int, b: int, c: int) -> int:
    x, y, z = f16(a), f16(b), f16(c)
    if not all(map(math.isfinite, (x, y, z))) or Fraction(x) * Fraction(y) + Fraction(z) == 0:
        return half(x * y + z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    near = half(float(exact))
    if not math.isfinite(f16(near)):
        return near
    finite = [n for n in (near - 1, near, near + 1) if 0 <= n <= 0xFFFF and math.isfinite(f16(n))]
    return min(finite, key=lambda n: (abs(Fraction(f16(n)) - exact), n & 1, n != near))


def test_f16_arithmetic() -> None:
    values = [half(x) for x in (0.0, -0.0, 1.0, 0.1, 65504.0, 6e-8, 6.1e-5, -3.5, 1000.3, math.inf, math.nan)]
    two = ("b16", "b16")
    snippets = [
        Snippet("add.rn.f16 %d, %a, %b;", "b16", two, lambda a, b: half(f16(a) + f16(b))),
        Snippet("mul.rn.f16 %d, %a, %b;", "b16", two, lambda a, b: half(f16(a) * f16(b))),
        Snippet("fma.rn.f16 %d, %a, %b, %c;", "b16", ("b16",) * 3, fused_half),
        Snippet("neg.f16 %d, %a;", "b16", ("b16",), lambda a: a ^ 0x8000 if f16(a) == f16(a) else 0x7FFF),
        Snippet("cvt.f32.f16 %d, %a;", "b32", ("b16",), lambda a: bits_of(f16(a))),
    ]
    operands = [(a, b, c) for a in values for b in values for c in values[:6]]
    assert disagreements(snippets, operands) == []


def to_integer(kind: str, mode: Callable[[float], float]) -> Callable[[int], int]:
    bits = int(kind[1:])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind[0] == "s" else (0, 2**bits - 1)

    def reference(a: int) -> int:
        x = f32(a)
        if x != x:
            return 0 if bits < 64 else 2**63
        return (low if x < 0 else high) if math.isinf(x) else max(low, min(high, int(mode(x))))

    return reference


def bf16(a: int) -> int:
    return 0x7FFF if f32(a) != f32(a) else (a + 0x7FFF + (a >> 16 & 1)) >> 16


CONVERSIONS = [
    *(Snippet(f"cvt.rni.{k}.f32 %d, %a;", f"b{k[1:]}", ("b32",), to_integer(k, round))
      for k in ("s32", "u32", "s64", "u64")),
    *(Snippet(f"cvt.rzi.{k}.f32 %d, %a;", f"b{k[1:]}", ("b32",), to_integer(k, math.trunc))
      for k in ("s32", "u32", "s64")),
    Snippet("cvt.rmi.s32.f32 %d, %a;", "b32", ("b32",), to_integer("s32", math.floor)),
    Snippet("cvt.rpi.s32.f32 %d, %a;", "b32", ("b32",), to_integer("s32", math.ceil)),
    Snippet("cvt.rn.f32.s32 %d, %a;", "b32", ("b32",), lambda a: bits_of(float(np.float32(signed(a, 32))))),
    Snippet("cvt.rn.f32.u64 %d, %a;", "b32", ("b64",), lambda a: int(np.uint64(a).astype(np.float32).view(np.uint32))),
    Snippet("cvt.rn.f16.f32 %d, %a;", "b16", ("b32",), lambda a: half(f32(a))),
    Snippet("cvt.rn.bf16.f32 %d, %a;", "b16", ("b32",), bf16),
    Snippet("cvt.rn.f16x2.f32 %d, %a, %b;", "b32", ("b32", "b32"), lambda a, b: half(f32(a)) << 16 | half(f32(b))),
    Snippet("cvt.sat.f32.f32 %d, %a;", "b32", ("b32",), lambda a: saturated(a)),
    Snippet("cvt.rni.f32.f32 %d, %a;", "b32", ("b32",), lambda a: bits_of(float(np.rint(np.float32(f32(a)))))),
    Snippet("cvt.s64.s32 %d, %a;", "b64", ("b32",), lambda a: signed(a, 32)),
    Snippet("cvt.sat.s8.s32 %d, %a;", "b32", ("b32",), lambda a: max(-128, min(127, signed(a, 32)))),
    Snippet("cvt.u16.u32 %d, %a;", "b16", ("b32",), lambda a: a),
    Snippet("cvt.s32.s8 %d, %a;", "b32", ("b32",), lambda a: signed(a & 255, 8)),
    Snippet("cvt.f64.f32 %d, %a;", "b64", ("b32",),
            lambda a: int(np.float64(f32(a)).view(np.uint64)) if f32(a) == f32(a) else 0x7FF8000000000000),
]  # fmt: skip


def test_conversions() -> None:
    values = (
        *(x for x in FLOATS if f32(x) == f32(x)),
        *(bits_of(x) for x in (0.5, 1.5, 2.5, -0.5, 2147483648.0, 1e19, -1e19, 255.5)),
    )
    operands = [(a, b, 0) for a in (*values, 0x7FFFFFFF, 0x12345678, 0xFFFFFF80) for b in values[:4]]
    plain = [s for s in CONVERSIONS if "f64.f32" not in s.text]
    assert disagreements(plain, operands) == []
    assert disagreements(CONVERSIONS[-1:], [(a, 0, 0) for a in values]) == []


@pytest.mark.parametrize(
    ("text", "f", "relative"),
    [
        ("ex2.approx.f32 %d, %a;", np.exp2, 2.0**-22),
        ("rcp.approx.f32 %d, %a;", lambda x: 1 / x, 2.0**-23),
        ("rsqrt.approx.f32 %d, %a;", lambda x: 1 / np.sqrt(x), 2.0**-22),
        ("tanh.approx.f32 %d, %a;", np.tanh, 2.0**-11),
    ],
)
def test_approximations_have_their_documented_error(text: str, f: Callable[..., np.ndarray], relative: float) -> None:
    x = np.linspace(0.1, 8, 64).astype(np.float32)
    operands = [(int(b), 0, 0) for b in x.view(np.uint32)]
    snippet = Snippet(text, "b32", ("b32",), lambda a: a)
    exact = f(x.astype(np.float64))
    errors = []
    for perturb in (False, True):
        y = results([snippet], operands, perturb)[0].astype(np.uint32).view(np.float32)
        errors.append(float(np.max(np.abs(y - exact) / np.abs(exact))))
    assert errors[0] <= 2.0**-24
    assert relative / 2 < errors[1] <= relative + 2.0**-24


def test_an_unknown_instruction_is_unsupported_and_named() -> None:
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b32 %r<3>;
mov.u32 %r1, 7;
frobnicate.b32 %r2, %r1;
ret; }}
"""
    run = run_ptx(text, 1, np.zeros(1, np.uint64))
    assert run.status == "unsupported"
    assert "PTX line 8: frobnicate.b32 %r2, %r1" in run.reason


def test_a_register_read_before_it_is_written_is_found() -> None:
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b32 %r<3>; .reg .b64 %o; .reg .pred %p;
ld.param.u64 %o, [out];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p, %r1, 16;
@%p mov.u32 %r2, 5;
add.u32 %r2, %r2, 1;
mul.wide.u32 %o, %r1, 8;
ld.param.u64 %o, [out];
st.global.u32 [%o], %r2;
st.global.u32 [%o+4], %r2;
ret; }}
"""
    run = run_ptx(text, 1, np.zeros(1, np.uint64))
    assert "undefined_register" in {f.kind for f in run.findings}
    assert "PTX line 11" in next(f for f in run.findings if f.kind == "undefined_register").instruction


def test_a_pointer_of_another_state_space_is_found() -> None:
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.shared .align 8 .b8 tile[256];
.reg .b64 %o, %s, %g; .reg .b64 %v;
ld.param.u64 %o, [out];
mov.u64 %s, tile;
cvta.shared.u64 %g, %s;
st.u64 [%g], 5;
bar.warp.sync 0xffffffff;
ld.global.u64 %v, [%g];
st.global.u64 [%o], %v;
ret; }}
"""
    run = run_ptx(text, 1, np.zeros(1, np.uint64), block=1)
    findings = [f for f in run.findings if f.kind == "wrong_state_space"]
    assert findings and "PTX line 13" in findings[0].instruction


@pytest.mark.parametrize(
    ("known", "join", "ok"), [("ne", "and", True), ("eq", "and", False), ("eq", "or", True), ("ne", "or", False)]
)
def test_a_predicate_that_decides_alone_hides_an_undefined_one(known: str, join: str, ok: bool) -> None:
    """NVRTC may combine a condition with a comparison whose operand is only defined under that condition."""
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %o, %v; .reg .b32 %never; .reg .pred %p, %q, %r;
ld.param.u64 %o, [out];
setp.{known}.u64 %p, %o, %o;
setp.gt.u32 %q, %never, 7;
{join}.pred %r, %q, %p;
selp.u64 %v, 3, 4, %r;
st.global.u64 [%o], %v;
ret; }}
"""
    run = run_ptx(text, 1, np.zeros(1, np.uint64), block=1)
    findings = [f for f in run.findings if f.kind == "undefined_register"]
    assert bool(findings) != ok


# (instruction, whether its result is defined). %never is unwritten, %no is false, %yes is true.
JOINED = (
    ("setp.gt.and.u32 %r, %never, 7, %no;", True), ("setp.gt.and.u32 %r, %never, 7, !%yes;", True),
    ("setp.gt.and.u32 %r, %never, 7, %yes;", False), ("setp.gt.or.u32 %r, %never, 7, %yes;", True),
    ("setp.gt.or.u32 %r, %never, 7, %no;", False), ("setp.gt.xor.u32 %r, %never, 7, %no;", False),
    ("setp.gt.and.u32 %r, 5, 7, %q;", True), ("setp.gt.and.u32 %r, 9, 7, %q;", False),
    ("setp.gt.or.u32 %r, 9, 7, !%q;", True), ("setp.gt.or.u32 %r, 5, 7, %q;", False),
    ("setp.gt.xor.u32 %r, 9, 7, %q;", False), ("setp.gt.and.u32 %q|%r, 9, 7, %q;", True),
    ("setp.gt.and.u32 %r|%q, 9, 7, %q;", False),
    ("set.gt.and.u32.u32 %x, %never, 7, %no; setp.eq.u32 %r, %x, 0;", True),
    ("set.gt.and.u32.u32 %x, %never, 7, %yes; setp.eq.u32 %r, %x, 0;", False),
)  # fmt: skip


def test_combined_predicates_only_read_the_deciding_operand() -> None:
    """The predicate operand of setp or set may decide the result alone, and may also be the destination register."""
    for text, known in JOINED:
        kernel = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %o, %v; .reg .b32 %never, %x; .reg .pred %yes, %no, %q, %r;
ld.param.u64 %o, [out];
setp.eq.u64 %yes, %o, %o; setp.ne.u64 %no, %o, %o;
{text}
selp.u64 %v, 3, 4, %r;
st.global.u64 [%o], %v;
ret; }}
"""
        run = run_ptx(kernel, 1, np.zeros(1, np.uint64), block=1)
        assert {f.kind for f in run.findings} == (set() if known else {"undefined_register"}), text


@pytest.mark.parametrize(("last", "kind"), [("st.local.u64 [%a+64], 5;", "out_of_bounds_local"), ("trap;", "trap")])
def test_local_memory_faults_and_traps_are_reported(last: str, kind: str) -> None:
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.local .align 8 .b8 mine[64];
.reg .b64 %a;
mov.u64 %a, mine;
{last}
ret; }}
"""
    run = run_ptx(text, 1, np.zeros(1, np.uint64), block=1)
    findings = [f for f in run.findings if f.kind == kind]
    assert findings and "PTX line 9" in findings[0].instruction


WARP = (
    "shfl.sync.up.b32 %y|%p, %x, 3, 0x0, 0xffffffff;",
    "shfl.sync.down.b32 %y|%p, %x, 3, 0x181f, 0xffffffff;",
    "shfl.sync.bfly.b32 %y|%p, %x, 5, 0x1f, 0xffffffff;",
    "shfl.sync.idx.b32 %y|%p, %x, 5, 0x181f, 0xffffffff;",
    "vote.sync.ballot.b32 %y, %odd, 0xffffffff;",
    "match.any.sync.b32 %y, %low, 0xffffffff;",
    "redux.sync.add.s32 %y, %x, 0xffffffff;",
    "redux.sync.max.u32 %y, %x, 0xffffffff;",
    "activemask.b32 %y;",
    "bar.red.popc.u32 %y, 0, %odd;",
)


def test_warp_instructions_exchange_lanes() -> None:
    body = "\n".join(f"{line} cvt.u64.u32 %w, %y; st.global.u64 [%o+{256 * k}], %w;" for k, line in enumerate(WARP))
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b32 %x, %y, %t, %low; .reg .pred %p, %odd; .reg .b64 %o, %w;
ld.param.u64 %o, [out];
mov.u32 %t, %tid.x;
mul.wide.u32 %w, %t, 8;
add.u64 %o, %o, %w;
mad.lo.u32 %x, %t, %t, 7;
and.b32 %low, %t, 3;
and.b32 %y, %t, 1;
setp.ne.u32 %odd, %y, 0;
{body}
ret; }}
"""
    run = run_ptx(text, len(WARP) * 32, np.zeros(1, np.uint64))
    assert run.ok, run.reason
    actual = run.outputs["out"].reshape(len(WARP), 32)
    lane = np.arange(32)
    x = lane * lane + 7
    down = np.where((lane % 8) + 3 < 8, lane + 3, lane)
    expected = [
        np.where(lane >= 3, x[lane - 3], x),
        x[down],
        x[lane ^ 5],
        x[lane // 8 * 8 + 5],
        np.full(32, 0xAAAAAAAA),
        np.array([sum(1 << k for k in range(32) if k % 4 == n % 4) for n in range(32)]),
        np.full(32, x.sum()),
        np.full(32, x.max()),
        np.full(32, 0xFFFFFFFF),
        np.full(32, 16),
    ]
    for line, lanes, expected_lanes in zip(WARP, actual, expected, strict=True):
        assert np.array_equal(lanes, expected_lanes.astype(np.uint32)), line
