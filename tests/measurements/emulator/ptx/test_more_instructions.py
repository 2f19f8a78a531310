"""Corner cases of more PTX instructions, including all types, scopes and spaces of atomics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import HEAD, Snippet, disagreements, results, run_ptx

import autosched
from search_spaces.hardware.dtypes import FLOAT_DTYPES

pytestmark = needs_compiler

F64 = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    1.5,
    2.0**-1074,
    -(2.0**-1022),
    1.7976931348623157e308,
    0.1,
    1e16,
    math.inf,
    -math.inf,
    math.nan,
)
BF16 = FLOAT_DTYPES["bf16"]
# Zeros, ones and adjacent numbers, the largest number, the smallest normal number, infinities, NaN.
BF16_BITS = (0, 0x8000, 0x3F80, 0xBF80, 0x3F81, 0x4049, 0xC2F7, 0x7F7F, 0x0080, 0x7F80, 0xFF80, 0x7FC0)


def f64_bits(x: float) -> int:
    return int(np.float64(x).view(np.uint64))


def f64(bits: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(bits).view(np.float64)


def test_f64_arithmetic() -> None:
    two = [*itertools.product(F64, F64)]
    x, y = (np.array(column) for column in zip(*two, strict=True))
    operands = [(f64_bits(a), f64_bits(b), f64_bits(0.5)) for a, b in two]
    with np.errstate(all="ignore"):
        expected = {
            "add.rn.f64 %d, %a, %b;": x + y,
            "sub.f64 %d, %a, %b;": x - y,
            "mul.f64 %d, %a, %b;": x * y,
            "div.rn.f64 %d, %a, %b;": x / y,
            "min.f64 %d, %a, %b;": np.fmin(x, y),
            "max.f64 %d, %a, %b;": np.fmax(x, y),
            "sqrt.rn.f64 %d, %a;": np.sqrt(x),
            "rcp.rn.f64 %d, %a;": 1.0 / x,
            "neg.f64 %d, %a;": -x,
            "abs.f64 %d, %a;": np.abs(x),
            "cvt.rni.f64.f64 %d, %a;": np.rint(x),
            "cvt.rzi.f64.f64 %d, %a;": np.trunc(x),
        }
    outputs = results([Snippet(text, "b64", ("b64", "b64", "b64"), int) for text in expected], operands)
    for (text, right), row in zip(expected.items(), outputs, strict=True):
        actual = f64(row)
        same = (actual == right) | (np.isnan(actual) & np.isnan(right))
        assert same.all(), (text, x[~same][0], y[~same][0], actual[~same][0], right[~same][0])
        if not text.startswith(("min", "max")):  # the minimum of -0 and +0 may be either
            assert (np.signbit(actual) == np.signbit(right))[right == 0].all(), text


def test_f64_fma_rounds_once() -> None:
    a, b = 1.0 + 2.0**-30, 1.0 - 2.0**-30
    cases = [(a, b, -1.0), (1e308, 10.0, -math.inf), (3.0, 1 / 3.0, -1.0), (2.0**-600, 2.0**-600, 0.0)]
    (row,) = results([Snippet("fma.rn.f64 %d, %a, %b, %c;", "b64", ("b64",) * 3, int)], [
        tuple(map(f64_bits, case)) for case in cases
    ])  # fmt: skip
    assert f64(row).tolist() == [-(2.0**-60), -math.inf, 3.0 * (1 / 3.0) - 1.0 + (-(2.0**-54)), 0.0]


def test_f64_comparisons_and_conversions() -> None:
    operands = [(f64_bits(a), f64_bits(b)) for a, b in itertools.product(F64, F64)]
    nan: Callable[[float, float], bool] = lambda a, b: math.isnan(a) or math.isnan(b)  # noqa: E731
    tests: dict[str, Callable[[float, float], bool]] = {
        "lt": lambda a, b: a < b,
        "ge": lambda a, b: a >= b,
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b and not nan(a, b),
        "neu": lambda a, b: a != b,
        "ltu": lambda a, b: a < b or nan(a, b),
        "num": lambda a, b: not nan(a, b),
        "nan": nan,
    }

    def of(f: Callable[[float, float], bool]) -> Callable[..., int]:
        return lambda a, b: int(f(*(float(np.uint64(x).view(np.float64)) for x in (a, b))))

    compare = [Snippet(f"setp.{op}.f64 %d, %a, %b;", "pred", ("b64", "b64"), of(f)) for op, f in tests.items()]
    assert not disagreements(compare, operands)

    def to_s32(bits: int) -> int:
        x = float(np.uint64(bits).view(np.float64))
        if math.isnan(x):
            return 0x80000000
        return int(max(-(2**31), min(2**31 - 1, math.trunc(x) if math.isfinite(x) else math.copysign(2.0**40, x))))

    def to_f32(bits: int) -> int:
        with np.errstate(all="ignore"):
            x = np.uint64(bits).view(np.float64).astype(np.float32)
        return int(x.view(np.uint32))  # a NaN keeps its sign and upper bits, as on an H100

    convert = [
        Snippet("cvt.rzi.s32.f64 %d, %a;", "b32", ("b64",), to_s32),
        Snippet("cvt.rn.f32.f64 %d, %a;", "b32", ("b64",), to_f32),
        Snippet("cvt.rn.f64.s32 %d, %a;", "b64", ("b32",), lambda n: f64_bits(n - 2**32 if n >> 31 else n)),
        Snippet("cvt.rn.f64.u64 %d, %a;", "b64", ("b64",), lambda n: f64_bits(float(n))),
    ]
    assert not disagreements(convert, operands)


def rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return BF16.store(x).astype(np.uint64)


def test_bf16_arithmetic() -> None:
    pairs = [*itertools.product(BF16_BITS, BF16_BITS)]
    third = 0x3F80
    x, y = (BF16.load(np.array(column, dtype=np.uint16)) for column in zip(*pairs, strict=True))
    operands = [(a, b, third) for a, b in pairs]
    with np.errstate(all="ignore"):
        expected = {
            "add.rn.bf16 %d, %a, %b;": x + y,
            "sub.rn.bf16 %d, %a, %b;": x - y,
            "mul.rn.bf16 %d, %a, %b;": x * y,
            "min.bf16 %d, %a, %b;": np.fmin(x, y),
            "max.bf16 %d, %a, %b;": np.fmax(x, y),
            "min.NaN.bf16 %d, %a, %b;": np.minimum(x, y),
            "max.NaN.bf16 %d, %a, %b;": np.maximum(x, y),
            "fma.rn.bf16 %d, %a, %b, %c;": x * y + 1.0,
            "neg.bf16 %d, %a;": -x,
            "abs.bf16 %d, %a;": np.abs(x),
        }
    outputs = results([Snippet(text, "b16", ("b16",) * 3, int) for text in expected], operands)
    doubled = [(a | b << 16, b | a << 16, third * 0x10001) for a, b in pairs]
    texts = [text.replace("bf16", "bf16x2") for text in expected]
    packed = results([Snippet(text, "b32", ("b32",) * 3, int) for text in texts], doubled)
    swapped = [pairs.index((b, a)) for a, b in pairs]
    for i, (text, exact) in enumerate(expected.items()):
        right = BF16.load(rounded(exact).astype(np.uint16))
        rows = (outputs[i], packed[i] & np.uint64(0xFFFF), (packed[i] >> np.uint64(16))[swapped])
        for row in rows:
            actual = BF16.load(row.astype(np.uint16))
            same = (actual == right) | (np.isnan(actual) & np.isnan(right))
            assert same.all(), (text, x[~same][0], y[~same][0], actual[~same][0], right[~same][0])


def test_bf16_conversions_round_to_nearest_even() -> None:
    values = [1.0, 1.00390625, 1.01171875, -1.00390625, 3.4e38, 1e-40, 0.0, math.inf, 2.5]
    bits = [int(np.float32(v).view(np.uint32)) for v in values]
    right = rounded(np.array(values, dtype=np.float32).astype(np.float64))
    one = Snippet("cvt.rn.bf16.f32 %d, %a;", "b16", ("b32",), int)
    two = Snippet("cvt.rn.bf16x2.f32 %d, %a, %b;", "b32", ("b32", "b32"), int)
    single, double = results([one, two], [(b, bits[0]) for b in bits])
    assert single.tolist() == right.tolist()
    assert double.tolist() == [int(high) << 16 | 0x3F80 for high in right], "the first source becomes the upper half"


@pytest.mark.parametrize("signs", ["u32.u32", "s32.s32", "u32.s32", "s32.u32"])
def test_dot_products(signs: str) -> None:
    of_a, of_b = signs.split(".")

    def parts(word: int, bits: int, count: int, kind: str) -> list[int]:
        fields = [word >> (bits * i) & (2**bits - 1) for i in range(count)]
        return [f - 2**bits if kind == "s32" and f >> (bits - 1) else f for f in fields]

    def dp4a(a: int, b: int, c: int) -> int:
        return c + sum(x * y for x, y in zip(parts(a, 8, 4, of_a), parts(b, 8, 4, of_b), strict=True))

    def dp2a(half: int) -> Callable[..., int]:
        def f(a: int, b: int, c: int) -> int:
            return c + sum(
                x * y for x, y in zip(parts(a, 16, 2, of_a), parts(b, 8, 4, of_b)[half : half + 2], strict=True)
            )

        return f

    words = (0, 1, 0xFF, 0x80, 0x7F7F7F7F, 0x80808080, 0xFFFFFFFF, 0x01020304, 0x8000FFFF, 0x7FFF8000)
    snippets = [
        Snippet(f"dp4a.{signs} %d, %a, %b, %c;", "b32", ("b32",) * 3, dp4a),
        Snippet(f"dp2a.lo.{signs} %d, %a, %b, %c;", "b32", ("b32",) * 3, dp2a(0)),
        Snippet(f"dp2a.hi.{signs} %d, %a, %b, %c;", "b32", ("b32",) * 3, dp2a(2)),
    ]
    assert not disagreements(snippets, [(a, b, c) for a in words for b in words for c in (0, 0xFFFFFFF0)])


ATOMICS: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda old, b, _: old + b,
    "min": lambda old, b, _: min(old, b),
    "max": lambda old, b, _: max(old, b),
    "and": lambda old, b, _: old & b,
    "or": lambda old, b, _: old | b,
    "xor": lambda old, b, _: old ^ b,
    "exch": lambda old, b, _: b,
    "cas": lambda old, b, c: c if old == b else old,
    "inc": lambda old, b, _: 0 if old >= b else old + 1,
    "dec": lambda old, b, _: b if old == 0 or old > b else old - 1,
}
OF_TYPES = {
    **dict.fromkeys(("add",), ("u32", "s32", "u64")),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor", "exch", "cas"), ("b32", "b64")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
}
ORDERS = ("", ".relaxed.cta", ".acquire.gpu", ".release.sys", ".acq_rel.gpu")


def atomic(order: str, space: str, op: str, kind: str, answer: str, reduce: bool) -> Snippet:
    """Return a snippet in which each thread updates its own word by an atom or red instruction.

    The word is initially a, and the instruction's operands are b and, for cas, c. ``answer`` selects the old or the new
    value of the word as the result.
    """
    bits = int(kind[1:])
    word, third = f"b{bits}", ", %c" if op == "cas" else ""
    address = {
        "shared": "mov.u32 %s, scratch; mad.lo.u32 %s, %l, 8, %s; cvt.u64.u32 %p, %s;",
        "global": "mov.u64 %p, %out;",
        "generic": "mov.u32 %s, scratch; mad.lo.u32 %s, %l, 8, %s; cvt.u64.u32 %p, %s; cvta.shared.u64 %p, %p;",
    }[space]
    named = "" if space == "generic" else f".{space}"
    change = (
        f"red{order}{named}.{op}.{kind} [%p], %b{third};"
        if reduce
        else f"atom{order}{named}.{op}.{kind} %old, [%p], %b{third};"
    )
    text = (
        f"{{ .reg .b64 %p; .reg .b32 %s, %l; .reg .{word} %old, %z; .shared .align 8 .b8 scratch[256]; "
        f"mov.u32 %l, %laneid; {address} mov.{word} %old, 0; st{named}.{word} [%p], %a; {change} "
        f"ld{named}.{word} %z, [%p]; mov.{word} %d, {'%z' if answer == 'new' else '%old'}; }}"
    )
    update = ATOMICS[op]

    def value(a: int, b: int, c: int) -> int:
        if answer == "old":
            return a
        if kind[0] == "s":
            a, b = (x - 2**bits if x >> (bits - 1) else x for x in (a, b))
        return update(a, b, c)

    return Snippet(text, word, (word,) * 3, value)


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_atomics_of_integers(space: str) -> None:
    snippets = []
    for i, (op, kind) in enumerate((op, kind) for op, kinds in OF_TYPES.items() for kind in kinds):
        snippets.append(atomic(ORDERS[i % len(ORDERS)], space, op, kind, "new", False))
        snippets.append(atomic(ORDERS[(i + 1) % len(ORDERS)], space, op, kind, "old", False))
        if op not in ("exch", "cas"):
            order = ("", ".relaxed.gpu", ".release.cta")[i % 3]
            snippets.append(atomic(order, space, op, kind, "new", True))
    words = (0, 1, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63, 2**64 - 1)
    operands = [(a, b, c) for a in words for b in words for c in (7,)]
    # the results of this snippet occupy memory that other snippets use as scratch
    first = Snippet("mov.b32 %d, 0;", "b32", ("b32",), lambda a: 0)
    differences = [line for line in disagreements([first, *snippets], operands) if not line.startswith("mov")]
    assert not differences, differences[:5]


@pytest.mark.parametrize("how", ["", ".rn", ".rz", ".rp.ftz"])
def test_packed_f32_arithmetic_equals_scalar_arithmetic(how: str) -> None:
    """Triton emits add, sub, mul and fma of .f32x2 for sm_100 and later."""
    snippets = []
    for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        if op == "fma" and not how:
            continue
        names = "abc"[:count]
        unpack = "".join(f" .reg .f32 {n}0, {n}1; mov.b64 {{{n}0, {n}1}}, %{n};" for n in names)
        halves = "".join(f" {op}{how}.f32 r{h}, {', '.join(n + h for n in names)};" for h in "01")
        pair = f"{op}{how}.f32x2 p, {', '.join('%' + n for n in names)};"
        text = (
            f"{{ .reg .b64 p, q; .reg .f32 r0, r1; {pair}{unpack}{halves} mov.b64 q, {{r0, r1}}; xor.b64 %d, p, q; }}"
        )
        snippets.append(Snippet(text, "b64", ("b64",) * count, lambda *_: 0))
    words = (0, 0x3F800000, 0xBF800001, 0x00000001, 0x80000000, 0x7F800000, 0x7FC00000, 0x4B7FFFFF, 0x33800000)
    pairs = [a << 32 | b for a, b in zip(words, words[1:] + words[:1], strict=True)]
    operands = [(a, b, c) for a in pairs for b in pairs for c in pairs[::3]]
    assert not disagreements(snippets, operands)[:5]


@pytest.mark.parametrize(
    ("kind", "unit", "lanes"),
    [("f32", np.float32, 1), ("f64", np.float64, 1), ("f16", np.float16, 1), ("f16x2", np.float16, 2)],
)
@pytest.mark.parametrize("scope", ["", ".relaxed.cta", ".acq_rel.gpu", ".relaxed.sys"])
def test_atomic_sums_of_floats_include_all_updates(kind: str, unit: type[np.generic], lanes: int, scope: str) -> None:
    size = np.dtype(unit).itemsize * lanes
    word, add = f"b{8 * size}", "add.noftz" if kind.startswith("f16") else "add"
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %out, %in; .reg .b32 %t; .reg .b64 %o; .reg .{word} %x, %old;
ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
mov.u32 %t, %laneid; mul.wide.u32 %o, %t, 8; add.u64 %in, %in, %o;
mov.b{8 * size} %x, 0; st.global.{word} [%out], %x;
bar.sync 0;
ld.global.{word} %x, [%in];
atom{scope}.global.{add}.{kind} %old, [%out], %x;
red.global.{add}.{kind} [%out], %x;
ret; }}
"""
    values = np.arange(32 * lanes).astype(unit).reshape(32, lanes)
    initial = np.zeros((32, 8), dtype=np.uint8)
    initial[:, :size] = values.view(np.uint8).reshape(32, size)
    run = run_ptx(text, 1, initial)
    actual = run.outputs["out"].view(np.uint8)[:size].view(unit)
    assert actual.tolist() == (2 * values.astype(np.float64).sum(0)).tolist(), run.reason
    # All lanes clear the same bytes, and the remaining bytes of the 8-byte word are never written.
    assert {str(f.kind) for f in run.findings} <= {"global_race", "lost_write", "unwritten_output"}


VECTOR_UPDATE = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %at; .reg .b32 %x;
ld.param.u64 %at, [out]; mov.b32 %x, 0f3F800000;
UPDATE
ret; }}
"""


@pytest.mark.parametrize(("scope", "expected"), [("cta", {"global_race"}), ("gpu", set())])
@pytest.mark.parametrize(
    "update",
    ["red.relaxed.{}.global.add.f32 [%at], %x;", "red.relaxed.{}.global.add.v2.f32 [%at], {{%x, %x}};"],
    ids=["scalar", "vector"],
)
def test_updates_with_block_scope_race_between_blocks(update: str, scope: str, expected: set[str]) -> None:
    text = VECTOR_UPDATE.replace("UPDATE", update.format(scope))
    done = autosched.emulate(text, kernel="kernel", arguments=(np.zeros(2, np.float32), np.zeros(1)), grid=2, block=32)
    assert {str(f.kind) for f in done.findings} == expected
    assert done.arrays[0].view(np.float32)[0] == 64


# Thread 0 stores data and then a flag, which tells thread 32 that the data is complete.
HANDED_ON = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.shared .b32 word;
.reg .b64 %out, %at; .reg .b32 %t, %x, %seen; .reg .pred %p;
ld.param.u64 %out, [out]; ld.param.u64 %at, [in]; mov.u32 %t, %tid.x; mov.b32 %x, 0f3F800000;
setp.eq.u32 %p, %t, 0; @%p bra GIVE;
setp.eq.u32 %p, %t, 32; @%p bra TAKE;
ret;
GIVE: st.shared.u32 [word], 7; fence.acq_rel.cta; UPDATE ret;
TAKE: ld.relaxed.cta.global.u32 %seen, [%at+4]; setp.eq.u32 %p, %seen, 0; @%p bra TAKE;
fence.acq_rel.cta; ld.shared.u32 %x, [word]; st.global.u32 [%out], %x;
ret; }}
"""


@pytest.mark.parametrize(
    "update", ["red.relaxed.cta.global.add.f32 [%at+4], %x;", "red.relaxed.cta.global.add.v2.f32 [%at], {%x, %x};"]
)
@pytest.mark.parametrize("fenced", [True, False])
def test_an_update_is_a_flag(update: str, fenced: bool) -> None:
    text = HANDED_ON.replace("UPDATE", update).replace("fence.acq_rel.cta;", "fence.acq_rel.cta;" if fenced else "")
    done = autosched.emulate(
        text, kernel="kernel", arguments=(np.zeros(1, np.uint32), np.zeros(2, np.float32)), grid=1, block=64
    )
    assert {str(f.kind) for f in done.findings} == (set() if fenced else {"shared_race"})
    assert done.arrays[0][0] == 7


VARIANTS = [
    ("ca.shared.global", 4, ""),
    ("ca.shared.global", 8, ""),
    ("ca.shared.global", 16, ""),
    ("cg.shared.global", 16, ""),
    ("ca.shared.global.L2::128B", 8, ""),
    ("cg.shared.global.L2::256B", 16, ""),
    ("ca.shared.global", 8, "3"),
    ("cg.shared.global", 16, "0"),
    ("cg.shared.global", 16, "9"),
    ("ca.shared.global", 4, "%skip"),
    ("cg.shared::cta.global.L2::64B", 16, "%skip"),
]


@pytest.mark.parametrize(("variant", "size", "third"), VARIANTS)
@pytest.mark.parametrize("wait", ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"])
def test_cp_async(variant: str, size: int, third: str, wait: str) -> None:
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %out, %in, %o; .reg .b32 %t, %s, %from, %odd; .reg .pred %skip; .reg .b32 %x; .shared .align 16 .b8 tile[512];
ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 16; add.u64 %in, %in, %o;
and.b32 %odd, %t, 1; setp.ne.u32 %skip, %odd, 0;
mov.u32 %s, tile; mad.lo.u32 %s, %t, {size}, %s;
cp.async.{variant} [%s], [%in], {size}{", " + third if third else ""};
{wait}
bar.sync 0;
xor.b32 %from, %t, 1; mov.u32 %s, tile; mad.lo.u32 %s, %from, {size}, %s;
mul.wide.u32 %o, %t, {max(size, 8)}; add.u64 %out, %out, %o;
{" ".join(f"ld.shared.b32 %x, [%s+{i}]; st.global.b32 [%out+{i}], %x;" for i in range(0, size, 4))}
{"mov.b32 %x, 0; st.global.b32 [%out+4], %x;" if size == 4 else ""}
ret; }}
"""
    values = np.random.default_rng(size).integers(0, 256, (32, 16)).astype(np.uint8)
    run = run_ptx(text, 32 * max(size, 8) // 8, values)
    assert run.ok, run.reason
    right = values[:, :size].copy()
    if third.isdigit():
        right[:, int(third) :] = 0
    elif third:
        right[1::2] = 0
    neighbours = right[np.arange(32) ^ 1]
    assert (run.outputs["out"].view(np.uint8).reshape(32, -1)[:, :size] == neighbours).all()


def test_groups_of_copies_arrive_in_their_order() -> None:
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %out, %in, %o; .reg .b32 %t, %s, %x, %y; .shared .align 16 .b8 tile[512];
ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 8; add.u64 %in, %in, %o; add.u64 %out, %out, %o;
mov.u32 %s, tile; mad.lo.u32 %s, %t, 8, %s;
cp.async.ca.shared.global [%s], [%in], 4; cp.async.commit_group;
cp.async.ca.shared.global [%s+4], [%in+4], 4; cp.async.commit_group;
cp.async.wait_group WAIT;
ld.shared.b32 %x, [%s]; ld.shared.b32 %y, [%s+LATER];
st.global.b32 [%out], %x; st.global.b32 [%out+4], %y;
ret; }}
"""
    values = np.arange(32, dtype=np.uint64) * np.uint64(2**32 + 1)

    def run(wait: int, later: int) -> tuple[str, list[str]]:
        done = run_ptx(text.replace("WAIT", str(wait)).replace("LATER", str(later)), 32, values)
        return done.status, [str(f.kind) for f in done.findings]

    assert run(0, 4) == ("ok", []) and run(1, 0) == ("ok", [])
    assert run(1, 4) == ("findings", ["async_read_before_wait"]), "the second group is in flight"
    assert run(2, 0) == ("findings", ["async_read_before_wait"]), "both groups are in flight"
    assert run(-1, 0) == ("findings", ["async_read_before_wait"]), "ptxas treats -1 as 63 groups that may be pending"
