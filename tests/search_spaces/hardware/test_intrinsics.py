"""Fragments of tensor intrinsics agree with the PTX ISA, and products agree with their definition."""

import dataclasses

import numpy as np
import pytest
from register_files import execute

from search_spaces.hardware.block_scaling import FACTOR_DTYPES
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import BF16, F16, round_to_tf32
from search_spaces.hardware.fragments import Fragment
from search_spaces.hardware.intrinsics import INTRINSICS, intrinsic, intrinsics_for
from search_spaces.hardware.units import UNITS, unit
from search_spaces.layouts.nested_layout import NestedLayout

ROWS = list(INTRINSICS.values())
OPEN = [row for row in ROWS if row.c.layout is not None]
FMA = [row for row in ROWS if row.unit == "fma"]


def names(rows):
    return [row.name for row in rows]


# Fragments ------------------------------------------------------------------------------------------------------------


def ptx_m16n8k16(lane):
    """Return fragment positions by the PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"."""
    g, t = lane // 4, lane % 4
    a = [(g + 8 * (i // 2 % 2), 2 * t + (i & 1) + 8 * (i >= 4)) for i in range(8)]
    b = [(2 * t + (i & 1) + 8 * (i >= 2), g) for i in range(4)]
    return a, b, ptx_c(lane)


def ptx_m16n8k8_tf32(lane):
    """Return fragment positions by the PTX ISA, "Matrix fragments for mma.m16n8k8" for .tf32."""
    g, t = lane // 4, lane % 4
    a = [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)]
    b = [(t, g), (t + 4, g)]
    return a, b, ptx_c(lane)


def ptx_m16n8k8_f16(lane):
    """Return fragment positions by the PTX ISA, "Matrix fragments for mma.m16n8k8" for .f16."""
    g, t = lane // 4, lane % 4
    a = [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)]
    b = [(2 * t, g), (2 * t + 1, g)]
    return a, b, ptx_c(lane)


def ptx_c(lane):
    g, t = lane // 4, lane % 4
    return [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)]


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("mma_m16n8k16_f16", ptx_m16n8k16),
        ("mma_m16n8k16_bf16", ptx_m16n8k16),
        ("mma_m16n8k8_tf32", ptx_m16n8k8_tf32),
        ("mma_m16n8k16_f16_f16", ptx_m16n8k16),
        ("mma_m16n8k8_f16_f16", ptx_m16n8k8_f16),
    ],
)
def test_mma_fragments_agree_with_the_ptx_isa(name, tables):
    row = intrinsic(name)
    for which, fragment in enumerate((row.a, row.b, row.c)):
        rows, cols = fragment.positions
        for lane in range(32):
            assert list(zip(rows[lane], cols[lane], strict=True)) == tables(lane)[which]


def test_a_warpgroup_fragment_is_one_more_row():
    # PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16", accumulator D, here with N = 16.
    layout = NestedLayout((4, 1), (1, 2), (2, 1), (8, 4), (1, 2), (1, 0), (4, 1))
    rows, cols = Fragment((64, 16), 8, layout, lanes=128).positions
    for thread in range(128):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        expected = [(16 * warp + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2) for i in range(8)]
        assert list(zip(rows[thread], cols[thread], strict=True)) == expected
    for lanes in (0, 48):
        with pytest.raises(ValueError, match="whole warps"):
            Fragment((64, 16), 8, layout, lanes=lanes)
    with pytest.raises(ValueError, match="uses 4 warps, but the fragment has 1"):
        Fragment((64, 16), 8, layout)


def test_fma_lanes_are_row_major_with_neighbouring_results():
    rows, cols = intrinsic("fma_m16n32k1").c.positions
    lane = np.arange(32)[:, None]
    value = np.arange(16)
    np.testing.assert_array_equal(rows, lane // 8 * 4 + value // 4)
    np.testing.assert_array_equal(cols, lane % 8 * 4 + value % 4)
    rows, cols = intrinsic("fma_m32n16k1").c.positions
    np.testing.assert_array_equal(rows, lane // 4 * 4 + value // 4)
    np.testing.assert_array_equal(cols, lane % 4 * 4 + value % 4)
    rows, cols = intrinsic("fma_m8n4k1").c.positions
    np.testing.assert_array_equal(rows, lane // 4)
    np.testing.assert_array_equal(cols, lane % 4)


@pytest.mark.parametrize("row", OPEN, ids=names(OPEN))
def test_fragments_distribute_and_collect(row):
    for fragment in (row.a, row.b, row.c):
        tile = np.arange(fragment.shape[0] * fragment.shape[1]).reshape(fragment.shape)
        held = fragment.distribute(tile)
        assert held.shape == (32, fragment.values)
        np.testing.assert_array_equal(fragment.collect(held), tile)
        counts = np.bincount(held.ravel(), minlength=tile.size)
        assert set(counts) == {fragment.holders}
        if fragment.holders > 1:
            held[31, 0] = -1
            with pytest.raises(ValueError, match=r"copies of an element .* differ"):
                fragment.collect(held)
        with pytest.raises(ValueError, match="registers must have shape"):
            fragment.collect(held[:31])
        with pytest.raises(ValueError, match="tile must have shape"):
            fragment.distribute(tile[:, :0])


@pytest.mark.parametrize("row", FMA, ids=names(FMA))
def test_an_fma_lane_computes_its_results_from_its_own_registers(row):
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(f.shape).astype(np.float32) for f in (row.a, row.b, row.c))
    own_a, own_b, own_c = row.a.distribute(a), row.b.distribute(b), row.c.distribute(c)
    exact = own_a[:, :, None].astype(np.float64) * own_b[:, None, :] + own_c.reshape(32, row.a.values, row.b.values)
    np.testing.assert_array_equal(execute(row, own_a, own_b, own_c), exact.astype(np.float32).reshape(32, -1))


# Values ---------------------------------------------------------------------------------------------------------------


def operand_values(row, rng, shape):
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)).astype(np.float32)


def rounded(row, values):
    if row.type_a == "tf32":
        return round_to_tf32(values).astype(np.float64)
    kind = FACTOR_DTYPES[row.type_a]
    if values.shape[-1] != row.numbers:  # b's elements consist of several numbers along k
        return kind.load(kind.store(values.swapaxes(-1, -2))).swapaxes(-1, -2)
    return kind.load(kind.store(values))


@pytest.mark.parametrize("row", ROWS, ids=names(ROWS))
def test_reference_is_the_product_within_f32_rounding(row):
    rng = np.random.default_rng(2)
    a, b = operand_values(row, rng, (5, row.m, row.numbers)), operand_values(row, rng, (5, row.numbers, row.n))
    is_integer = row.type_a == "i8"
    c = (8 * rng.standard_normal((5, row.m, row.n))).astype(np.int32 if is_integer else np.float32)
    left, right = rounded(row, a), rounded(row, b)
    d = row.reference(a, b, c)
    if is_integer:
        assert d.dtype == np.int32 and (d == left @ right + c).all()
        return
    assert d.dtype == (np.float16 if row.f16_sums else np.float32)
    c = c.astype(d.dtype).astype(np.float64)
    bound = (row.k + 1) * 2.0**-24 * (np.abs(left) @ np.abs(right) + np.abs(c))
    bound += 2.0**-11 * np.abs(d) if row.f16_sums else 0.0
    assert (np.abs(d - (left @ right + c)) <= bound).all()


def test_reference_adds_exact_products_in_f32_along_k():
    row = intrinsic("mma_m16n8k16_f16")
    a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    a[0, :3], b[:3, 0] = (1 + 2.0**-10, 1, 1), (1 + 2.0**-10, 2.0**-24, 2.0**-24)
    # (1 + 2^-10)^2 needs 21 bits and is exact. Each 2^-24 is half an ulp (2^-23) of the sum: a tie, rounded to even.
    square = (1 + 2.0**-10) ** 2
    assert row.reference(a, b, c)[0, 0] == square
    c[0, 0] = 2.0**-23
    assert row.reference(a, b, c)[0, 0] == square + 2.0**-22


def test_sums_in_f16_are_rounded_once_and_overflow():
    row = intrinsic("mma_m16n8k16_f16_f16")
    a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    a[0], b[:, 0] = 1, 0.25
    c[0, 0] = 2048  # an ulp of 2048 is 2, so rounding after each product would drop all products
    assert row.reference(a, b, c)[0, 0] == 2052
    a[0, 12:] = 0
    assert row.reference(a, b, c)[0, 0] == 2052  # the exact sum 2051 is a tie, which is rounded to even
    a[0], c[0, 0] = 2, 65504 - 8
    assert row.reference(a, b, c)[0, 0] == 65504
    c[0, 0], b[:, 1], c[0, 1] = 65504, -1, -65504
    assert row.reference(a, b, c)[0, 0] == 65504 and row.reference(a, b, c)[0, 1] == -np.inf
    with pytest.raises(ValueError, match="only f16 products"):
        dataclasses.replace(row, type_a="bf16", type_b="bf16")


@pytest.mark.parametrize(("name", "store"), [("mma_m16n8k16_f16", F16), ("mma_m16n8k16_bf16", BF16)])
def test_operands_are_rounded_to_their_type(name, store):
    row = intrinsic(name)
    a, b = np.full((16, 16), 1 + 2.0**-12), np.eye(16, 8)
    assert store.load(store.store(a)).max() == 1
    np.testing.assert_array_equal(row.reference(a, b, np.zeros((16, 8))), 1)


def test_tf32_rounds_to_nearest_away_and_keeps_the_exponent():
    row = intrinsic("mma_m16n8k8_tf32")
    a, b = np.zeros((16, 8), np.float32), np.eye(8, dtype=np.float32)
    a[0] = [1 + 2.0**-11, 1 - 2.0**-12, 1e-38, 3e38, -1 - 2.0**-11, 1 + 2.0**-12, 0, 1]
    d = row.reference(a, b, np.zeros((16, 8)))
    np.testing.assert_array_equal(d[0], round_to_tf32(a[0]))
    assert d[0, 0] == 1 + 2.0**-10
    assert d[0, 4] == -1 - 2.0**-10
    assert d[0, 5] == 1


SINGLE = [row for row in OPEN if row.numbers == row.k]  # other intrinsics pack several numbers


@pytest.mark.parametrize("row", SINGLE, ids=names(SINGLE))
def test_executing_register_files_equals_the_reference(row):
    rng = np.random.default_rng(3)
    a, b = operand_values(row, rng, row.a.shape), operand_values(row, rng, row.b.shape)
    c = rng.standard_normal(row.c.shape).astype(np.float32)
    d = execute(row, row.a.distribute(a), row.b.distribute(b), row.c.distribute(c))
    assert d.shape == (32, row.c.values)
    np.testing.assert_array_equal(row.c.collect(d), row.reference(a, b, c))


def test_wmma_fragments_are_opaque():
    row = intrinsic("wmma_m16n16k16_f16")
    with pytest.raises(ValueError, match="which lane holds which element"):
        execute(row, np.zeros((32, 8)), np.zeros((32, 8)), np.zeros((32, 8)))
    with pytest.raises(ValueError, match="must end in"):
        row.reference(np.zeros((16, 8)), np.zeros((16, 16)), np.zeros((16, 16)))


# Rows -----------------------------------------------------------------------------------------------------------------


def test_the_rows():
    assert {
        name: (r.m, r.n, r.k, r.needs, r.a.registers, r.b.registers, r.c.registers) for name, r in INTRINSICS.items()
    } == {
        "fma_m16n32k1": (16, 32, 1, "", 4, 4, 16),
        "fma_m32n16k1": (32, 16, 1, "", 4, 4, 16),
        "fma_m8n4k1": (8, 4, 1, "", 1, 1, 1),
        "wmma_m16n16k16_f16": (16, 16, 16, "", 8, 8, 8),
        "wmma_m16n16k16_bf16": (16, 16, 16, "mma_k16", 4, 4, 8),
        "wmma_m16n16k8_tf32": (16, 16, 8, "mma_k16", 4, 4, 8),
        "mma_m16n8k16_f16": (16, 8, 16, "mma_k16", 4, 2, 4),
        "mma_m16n8k16_bf16": (16, 8, 16, "mma_k16", 4, 2, 4),
        "mma_m16n8k16_f16_f16": (16, 8, 16, "mma_k16", 4, 2, 2),
        "mma_m16n8k8_f16_f16": (16, 8, 8, "", 2, 1, 2),
        "mma_m16n8k8_tf32": (16, 8, 8, "mma_k16", 4, 2, 4),
        "mma_m16n8k32_i8": (16, 8, 32, "mma_k16", 4, 2, 4),
        "mma_m16n8k32_e4m3": (16, 8, 32, "fp8_mma", 4, 2, 4),
        "mma_m16n8k32_e5m2": (16, 8, 32, "fp8_mma", 4, 2, 4),
        "mma_m16n8k32_mxf8": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k64_mxf4": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k64_nvf4": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k32_e4m3_unit_scales": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k32_e5m2_unit_scales": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k8_f16": (16, 8, 8, "", 2, 1, 4),
        "mma_m16n8k16_i8": (16, 8, 16, "", 2, 1, 4),
    }


def test_each_row_has_the_properties_of_its_instruction():
    issued = {name: (r.instructions, r.results, r.c_name("T", "T")) for name, r in INTRINSICS.items()}
    assert issued["fma_m16n32k1"] == (16, 1, "autosched::Fma<T, 4, 8, 4, 4>")
    assert issued["fma_m8n4k1"] == (1, 1, "autosched::Fma<T, 8, 4, 1, 1>")
    assert issued["wmma_m16n16k8_tf32"] == (2, 8, "autosched::Wmma<T>")
    assert issued["mma_m16n8k16_bf16"] == (1, 4, "autosched::MmaSync<T>")
    for row in ROWS:
        # multiply-adds that a warp executes with one instruction
        per_instruction = {"fma": 32, "wmma": 16 * 8 * row.k, "mma": 16 * 8 * row.k}[row.unit]
        if row.name == "mma_m16n8k16_i8":
            per_instruction = 8 * 8 * row.k  # executed as m8n8k16
        assert row.instructions * per_instruction == row.m * row.n * row.k
    assert issued["mma_m16n8k8_f16_f16"] == (1, 2, "autosched::MmaSync<T, autosched::f16x2, 8>")


def test_rates_follow_the_unit_and_the_generation():
    h200, a100 = device("h200"), device("a100")
    rows = {name: row for name, row in INTRINSICS.items() if row.needs not in ("fp8_mma", "block_scale_mma")}
    rates = {name: (row.flops_per_cycle(h200), row.flops_per_cycle(a100)) for name, row in rows.items()}
    assert rates["fma_m16n32k1"] == (256, 128)
    assert rates["mma_m16n8k16_f16"] == (0.63 * 4096, 2048)
    assert rates["mma_m16n8k8_tf32"] == (0.63 * 2048, 1024)
    assert rates["mma_m16n8k32_i8"] == (0.63 * 8192, 4096)
    assert rates["mma_m16n8k16_f16_f16"] == rates["mma_m16n8k16_f16"]
    for name, faster in (("rtx3090", 2), ("rtx4090", 2), ("a10", 1), ("l4", 1), ("l40s", 1)):  # faster only on GeForce
        in_f32, in_f16 = (
            intrinsic(n).flops_per_cycle(device(name)) for n in ("mma_m16n8k16_f16", "mma_m16n8k16_f16_f16")
        )
        assert in_f16 == faster * in_f32
    assert unit("fma").flops_per_cycle(h200, "i8") == unit("fma").flops_per_cycle(a100, "i8") == 128
    fp8 = intrinsic("mma_m16n8k32_e4m3")
    assert fp8.flops_per_cycle(h200) == rates["mma_m16n8k16_f16"][0]  # Hopper converts fp8 operands to f16
    assert fp8.flops_per_cycle(device("l40s")) == 2048
    by_scales = intrinsic("mma_m16n8k32_e4m3_unit_scales")
    for name, faster in (("rtx5090", 2), ("rtx_pro_6000", 1)):  # faster only on GeForce
        assert by_scales.flops_per_cycle(device(name)) == faster * fp8.flops_per_cycle(device(name))
    with pytest.raises(ValueError, match="a100 has no tensor rate for 'e4m3': use one of f16, bf16, tf32, i8"):
        fp8.flops_per_cycle(a100)
    assert rates["wmma_m16n16k16_f16"] == pytest.approx((0.4 * 0.63 * 4096, 0.4 * 2048))
    assert [u.clock_hz(h200) for u in UNITS.values()] == [1.83e9 if u.tensor else 1.98e9 for u in UNITS.values()]
    with pytest.raises(ValueError, match="unknown unit 'dpas': use one of fma, wmma, mma"):
        unit("dpas")


def test_an_instruction_is_unsupported_by_generation_or_by_architecture():
    row = intrinsic("mma_m16n8k16_f16")
    assert row.why_not(device("a100")) is None
    assert row.why_not(device("t4")) == "mma_m16n8k16_f16 needs sm_80, but t4 is sm_75"
    hopper = dataclasses.replace(row, needs="wgmma")
    assert hopper.why_not(device("h200")) is None
    assert hopper.why_not(device("b200")) == "mma_m16n8k16_f16 needs sm_90a, but b200 is sm_100a"
    assert hopper.why_not(device("rtx5090")) == "mma_m16n8k16_f16 needs sm_90a, but rtx5090 is sm_120a"
    plain = dataclasses.replace(device("h200"), arch="sm_90")
    assert hopper.why_not(plain) == "mma_m16n8k16_f16 needs sm_90a, but h200 is sm_90"


def test_fp8_has_the_rate_of_f16_without_an_fp8_instruction():
    fp8 = intrinsic("mma_m16n8k32_e4m3")
    assert fp8.flops_per_cycle(device("rtx5090")) == 1024
    assert fp8.flops_per_cycle(device("rtx_pro_6000")) == 2048
    assert fp8.flops_per_cycle(device("b200")) == intrinsic("mma_m16n8k16_f16").flops_per_cycle(device("b200"))


def test_operands_of_two_types():
    row = intrinsic("mma_m16n8k16_f16")
    mixed = dataclasses.replace(row, type_b="bf16", cpp="Mixed<{a}, {b}>")
    assert (mixed.name, mixed.c_name("f16", "bf16")) == ("mma_m16n8k16_f16_bf16", "Mixed<f16, bf16>")
    assert (mixed.stored("a"), mixed.stored("b")) == (("f16",), ("bf16",))
    fine = 1 + 2.0**-9  # needs 9 mantissa bits: exact in f16, rounded in bf16
    a, b, c = np.full((16, 16), fine), np.eye(16, 8), np.zeros((16, 8))
    assert (mixed.reference(a, b, c) == fine).all()
    assert (mixed.reference(np.eye(16), np.full((16, 8), fine), c) == 1).all()


def test_rows_of_a_type():
    fma = {"fma_m16n32k1", "fma_m32n16k1", "fma_m8n4k1"}
    assert set(names(intrinsics_for("f16", tf32=False))) == fma | {"wmma_m16n16k16_f16", "mma_m16n8k16_f16"}
    in_f16 = {"mma_m16n8k16_f16_f16", "mma_m16n8k8_f16_f16"}
    assert set(names(intrinsics_for("f16", tf32=False, acc="f16"))) == in_f16
    assert set(names(intrinsics_for("bf16", tf32=True))) == fma | {"wmma_m16n16k16_bf16", "mma_m16n8k16_bf16"}
    assert set(names(intrinsics_for("f32", tf32=False))) == fma
    assert set(names(intrinsics_for("f32", tf32=True))) == fma | {"wmma_m16n16k8_tf32", "mma_m16n8k8_tf32"}
    with pytest.raises(ValueError, match="unknown type 'f64'"):
        intrinsics_for("f64", tf32=False)
    with pytest.raises(ValueError, match="unknown tensor intrinsic 'mma': use one of fma_m16n32k1"):
        intrinsic("mma")


def test_rows_that_contradict_themselves_are_rejected():
    row = intrinsic("mma_m16n8k16_f16")
    layout = row.a.layout
    for changes, message in (
        ({"c": row.a}, r"fragments of \(16, 16\), \(16, 8\) and \(16, 16\) do not fit a @ b \+ c"),
        ({"b": intrinsic("mma_m16n8k8_tf32").b}, "do not fit a @ b"),
        ({"b": Fragment((16, 8), 2)}, "fragment b needs a layout"),
        (
            {"a": dataclasses.replace(row.a, registers=8)},
            "holds 8 values of 16 bits per lane, which do not fill 8 registers",
        ),
        ({"type_a": "f8"}, "type_a must be one of"),
        ({"unit": "hmma"}, "unknown unit 'hmma': use one of fma, wmma, mma"),
        ({"instructions": 0}, "must be at least 1"),
        ({"needs": "tmem"}, "unknown feature 'tmem'"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(row, **changes)
    for make, message in (
        (lambda: Fragment((16, 16), 4, layout, (0, 1, 2)), "permutation of 0 to 7"),
        (lambda: Fragment((16, 8), 4, layout), r"shape\[1\] is 8"),
        (lambda: Fragment((16, 16), 4, None, (0,)), "this fragment has none"),
        (
            lambda: Fragment((24, 1), 1, NestedLayout((1, 1), (1, 1), (1, 1), (24, 1), (1, 1), (0, 0), (1, 0))),
            "repeats every 24 threads",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()
