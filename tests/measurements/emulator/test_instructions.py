"""Each function of ``ptx/`` agrees with numpy in complete launches."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from library_kernels import Run, entry, output_of, same_floats, words

from search_spaces.hardware.dtypes import BF16, F32, U32, round_to_tf32
from search_spaces.launches.operand import Operand


def map_words(run: Run, expression: str, x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Emulate o[i] = expression for each word ``x``."""
    source = entry(
        "const unsigned i = blockIdx.x * 256 + threadIdx.x;\n"
        "const unsigned x = ld_global_nc<4>(a + i).word[0];\n"
        f"st_global(o + i, AlignedVector<4>{{{{{expression}}}}});",
        "const unsigned* a, unsigned* o",
    )
    assert x.size % 256 == 0
    arguments = (words("a", "input", x.size), words("o", "output", x.size))
    return output_of(run(source, arguments, {"a": x}, grid=x.size // 256, block=256)).view(np.uint32)


def interesting_floats(bits_kept: int) -> npt.NDArray[np.uint32]:
    """Return f32 bits: random patterns, ties of rounding to ``bits_kept`` mantissa bits, extreme values, infinities."""
    rng = np.random.default_rng(5)
    random = rng.integers(0, 2**32, 60 * 256, dtype=np.uint32)
    ties = random[: 8 * 256] & ~np.uint32(2 ** (23 - bits_kept) - 1) | np.uint32(2 ** (22 - bits_kept))
    near_f16 = (rng.standard_normal(16 * 256) * 2.0 ** rng.integers(-28, 18, 16 * 256)).astype(np.float32)
    special = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 1, 0x7F7FFFFF, 0x477FEFFF, 0x477FF000], np.uint32)
    return np.concatenate([random, ties, near_f16.view(np.uint32), np.tile(special, 32)])


def test_every_f16_and_bf16_converts_to_f32(run: Run) -> None:
    x = np.arange(65536, dtype=np.uint32)
    half = map_words(run, "bits_of(cvt_f32_f16(static_cast<unsigned short>(x)))", x).view(np.float32)
    same_floats(half.astype(np.float64), x.astype(np.uint16).view(np.float16).astype(np.float64))
    brain = map_words(run, "bits_of(cvt_f32_bf16(static_cast<unsigned short>(x)))", x)
    np.testing.assert_array_equal(brain, x << 16)


@pytest.mark.filterwarnings("ignore:overflow encountered in add", "ignore:invalid value encountered in add")
def test_pairs_of_f16(run: Run) -> None:
    """Convert all f16 numbers in pairs. Add each number to its counterpart in a permutation of all f16 numbers."""
    x = np.arange(65536, dtype=np.uint32)
    pairs = x | x[::-1] << 16
    low = map_words(run, "bits_of(cvt_f32_f16_low(f16x2(x)))", pairs).view(np.float32)
    high = map_words(run, "bits_of(cvt_f32_f16_high(f16x2(x)))", pairs).view(np.float32)
    every = x.astype(np.uint16).view(np.float16)
    same_floats(low.astype(np.float64), every.astype(np.float64))
    same_floats(high.astype(np.float64), every[::-1].astype(np.float64))
    # The lower halves of ``other`` are those of x, multiplied as integers by an odd number. This permutes all f16
    # numbers. The upper halves of ``other`` equal those of x, so each upper half is added to itself.
    other = f"f16x2(x * {0x9E3B} & 0xffff | x >> 16 << 16)"
    added = map_words(run, f"unsigned(add_rn(f16x2(x), {other}))", pairs)
    swapped = (pairs * np.uint32(0x9E3B) & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16)
    same_floats(
        (added & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64), (every + swapped).astype(np.float64)
    )
    same_floats(
        (added >> 16).astype(np.uint16).view(np.float16).astype(np.float64),
        (every[::-1] + every[::-1]).astype(np.float64),
    )


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_f32_rounds_to_f16(run: Run) -> None:
    x = interesting_floats(10)
    ours = map_words(run, "cvt_rn_f16_f32(float_of(x))", x).astype(np.uint16).view(np.float16)
    same_floats(ours.astype(np.float64), x.view(np.float32).astype(np.float16).astype(np.float64))


def test_f32_rounds_to_bf16(run: Run) -> None:
    x = interesting_floats(7)
    ours = map_words(run, "cvt_rn_bf16_f32(float_of(x))", x).astype(np.uint16)
    nan = np.isnan(x.view(np.float32))
    np.testing.assert_array_equal(ours[~nan], BF16.store(x.view(np.float32)[~nan]))
    assert (ours[nan] == 0x7FFF).all()  # the instruction returns the canonical NaN, while BF16.store keeps a NaN's sign


def test_f32_rounds_to_tf32(run: Run) -> None:
    x = interesting_floats(10)
    ours = map_words(run, "cvt_rna_tf32(x)", x).view(np.float32)
    expected = round_to_tf32(x.view(np.float32))
    nan = np.isnan(expected)
    # As on an H100, NaNs are truncated, not quieted. A NaN whose remaining payload bits are 0 becomes infinity.
    np.testing.assert_array_equal(ours[nan].view(np.uint32), x[nan] & np.uint32(0xFFFFE000))
    np.testing.assert_array_equal(ours[~nan].view(np.uint32), expected[~nan].view(np.uint32))


def test_arithmetic_functions(run: Run) -> None:
    x = np.linspace(0.1, 3, 256, dtype=np.float32)
    for expression, expected in {
        "rsqrtf(v)": 1 / np.sqrt(x.astype(np.float64)),
        "expf(-v)": np.exp(-x.astype(np.float64)),
        "exp2f(v)": np.exp2(x.astype(np.float64)),
        "logf(v)": np.log(x.astype(np.float64)),
        "tanhf(v)": np.tanh(x.astype(np.float64)),
        "fmaxf(v, 1.0f) + fminf(v, 1.0f)": x + 1.0,
    }.items():
        ours = map_words(run, f"[](float v) {{ return bits_of({expression}); }}(float_of(x))", x.view(np.uint32))
        np.testing.assert_allclose(ours.view(np.float32), expected, rtol=3e-7)
    fused = map_words(run, "bits_of(fmaf(float_of(x), float_of(x), -1.0f))", x.view(np.uint32)).view(np.float32)
    np.testing.assert_array_equal(fused, (x.astype(np.float64) ** 2 - 1).astype(np.float32))
    plain = map_words(run, "bits_of(float_of(x) * float_of(x) - 1.0f)", x.view(np.uint32)).view(np.float32)
    np.testing.assert_array_equal(plain, fused)  # NVRTC fuses multiplication and subtraction


def test_bit_functions(run: Run) -> None:
    x = np.random.default_rng(0).integers(0, 2**32, 256, dtype=np.uint32)
    np.testing.assert_array_equal(map_words(run, "unsigned(__popc(x))", x), [int(v).bit_count() for v in x])
    np.testing.assert_array_equal(map_words(run, "unsigned(__clz(int(x)))", x), [32 - int(v).bit_length() for v in x])
    reverse = [int(f"{int(v):032b}"[::-1], 2) for v in x]
    np.testing.assert_array_equal(map_words(run, "__brev(x)", x), reverse)
    np.testing.assert_array_equal(map_words(run, "__umulhi(x, x)", x), [int(v) * int(v) >> 32 for v in x])


def test_built_in_variables(run: Run) -> None:
    source = entry(
        "const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;\n"
        "const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
        "const unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + t;\n"
        "st_global(o + i, AlignedVector<4>{{threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 |\n"
        "  blockIdx.x << 12 | blockIdx.y << 16 | blockIdx.z << 20}});",
        "unsigned* o",
    )
    out = output_of(run(source, (words("o", "output", 24 * 48),), {}, grid=(2, 3, 4), block=(8, 3, 2)))
    expected = [
        tx | ty << 4 | tz << 8 | bx << 12 | by << 16 | bz << 20
        for bz, by, bx, tz, ty, tx in itertools.product(range(4), range(3), range(2), range(2), range(3), range(8))
    ]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_packets_go_through_both_memories(run: Run, size: int) -> None:
    # A thread moves 16 bytes in pieces of `size` bytes. Shared memory holds the pieces in reverse order.
    source = entry(
        f"constexpr int size = {size};\n"
        "const char* from = reinterpret_cast<const char*>(a) + threadIdx.x * 16;\n"
        "char* to = reinterpret_cast<char*>(o) + threadIdx.x * 16;\n"
        "const unsigned s = shared_memory() + threadIdx.x * 16;\n"
        "for (int i = 0; i < 16; i += size) st_shared(s + 16 - size - i, ld_global_nc<size>(from + i));\n"
        "for (int i = 0; i < 16; i += size) st_global(to + i, ld_shared<size>(s + i));",
        "const unsigned* a, unsigned* o",
    )
    x = np.random.default_rng(1).integers(0, 2**32, 128, dtype=np.uint32)
    arguments = (words("a", "input", 128), words("o", "output", 128))
    out = output_of(run(source, arguments, {"a": x}, shared=512))
    expected = x.view(np.uint8).reshape(32, 16 // size, size)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(out.view(np.uint8), expected)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_ld_global_cg(run: Run, size: int) -> None:
    count = size // 4
    source = entry(
        f"st_global(o + threadIdx.x * {count}, ld_global_cg<{size}>(a + threadIdx.x * {count}));",
        "const unsigned* a, unsigned* o",
    )
    x = np.arange(32 * count, dtype=np.uint32)
    arguments = (words("a", "input", x.size), words("o", "output", x.size))
    np.testing.assert_array_equal(output_of(run(source, arguments, {"a": x})), x)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async_fills_with_zeros(run: Run, size: int) -> None:
    # Thread t copies t % (size + 1) bytes of its vector.
    copy = "cp_async_cg(s, from, bytes)" if size == 16 else f"cp_async_ca<{size}>(s, from, bytes)"
    source = entry(
        f"constexpr int size = {size};\n"
        "const char* from = reinterpret_cast<const char*>(a) + threadIdx.x * size;\n"
        "const unsigned s = shared_memory() + threadIdx.x * size;\n"
        "const int bytes = int(threadIdx.x) % (size + 1);\n"
        f"{copy};\n"
        "cp_async_commit_group();\n"
        "cp_async_wait_group<0>();\n"
        "st_global(reinterpret_cast<char*>(o) + threadIdx.x * size, ld_shared<size>(s));",
        "const unsigned* a, unsigned* o",
    )
    x = np.random.default_rng(2).integers(0, 2**32, 8 * size, dtype=np.uint32)
    arguments = (words("a", "input", x.size), words("o", "output", x.size))
    out = output_of(run(source, arguments, {"a": x}, shared=512))
    expected = x.view(np.uint8).reshape(32, size).copy()
    for t in range(32):
        expected[t, t % (size + 1) :] = 0
    np.testing.assert_array_equal(out.view(np.uint8).reshape(32, size), expected)


def test_cp_async_pipeline_delivers_group_by_group(run: Run) -> None:
    # Three stages are in flight. The sum over ten tiles is right only if every wait waits for the right group.
    source = entry(
        "const unsigned t = threadIdx.x, s = shared_memory();\n"
        "for (int i = 0; i < 2; ++i) {\n"
        "  cp_async_ca<4>(s + (i * 64 + t) * 4, a + i * 64 + t, 4);\n"
        "  cp_async_commit_group();\n"
        "}\n"
        "float sum = 0;\n"
        "for (int i = 0; i < 10; ++i) {\n"
        "  cp_async_wait_group<1>();\n"
        "  barrier_sync();\n"
        "  if (i + 2 < 10) cp_async_ca<4>(s + ((i + 2) % 3 * 64 + t) * 4, a + (i + 2) * 64 + t, 4);\n"
        "  cp_async_commit_group();\n"
        "  sum = sum * 2 + float_of(ld_shared<4>(s + (i % 3 * 64 + (t + 32) % 64) * 4).word[0]);\n"
        "}\n"
        "st_global(o + t, packet(sum));"
    )
    a = np.random.default_rng(3).integers(0, 9, 640).astype(np.float32)
    arguments = (Operand("a", "input", F32, (640,)), Operand("o", "output", F32, (64,)))
    out = output_of(run(source, arguments, {"a": a}, block=64, shared=768))
    weights = 2.0 ** np.arange(9, -1, -1)
    np.testing.assert_array_equal(out, np.roll(weights @ a.reshape(10, 64), 32))


def test_shuffles(run: Run) -> None:
    # The block index is the lane operand of the block's shuffles.
    source = entry(
        "const unsigned lane = threadIdx.x, x = ld_global_nc<4>(a + lane).word[0];\n"
        "const int n = int(blockIdx.x);\n"
        "unsigned* to = o + blockIdx.x * 128 + lane;\n"
        "st_global(to, AlignedVector<4>{{shfl_bfly(x, n)}});\n"
        "st_global(to + 32, AlignedVector<4>{{shfl_down(x, n)}});\n"
        "st_global(to + 64, AlignedVector<4>{{shfl_idx(x, n)}});\n"
        "st_global(to + 96, AlignedVector<4>{{shfl_idx(x, int(lane * 7 + n))}});",
        "const unsigned* a, unsigned* o",
    )
    x = np.random.default_rng(4).integers(0, 2**32, 32, dtype=np.uint32)
    arguments = (words("a", "input", 32), words("o", "output", 32 * 128))
    out = output_of(run(source, arguments, {"a": x}, grid=32)).reshape(32, 4, 32)
    lane = np.arange(32)
    for n, (bfly, down, idx, each) in enumerate(out):
        np.testing.assert_array_equal(bfly, x[lane ^ n])
        np.testing.assert_array_equal(down, np.where(lane + n < 32, x[np.minimum(lane + n, 31)], x))
        np.testing.assert_array_equal(idx, x[n])
        np.testing.assert_array_equal(each, x[(lane * 7 + n) % 32])


@pytest.mark.parametrize("trans", ["", "_trans"])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_ldmatrix(run: Run, matrices: int, trans: str) -> None:
    rng = np.random.default_rng(6)
    tile = rng.integers(0, 2**16, (32, 8), dtype=np.uint16)
    order = rng.permutation(32).astype(np.uint32)  # order[l]: the shared-memory position of lane l's row
    source = entry(
        "const unsigned lane = threadIdx.x, s = shared_memory();\n"
        "const unsigned row = s + ld_global_nc<4>(order + lane).word[0] * 16;\n"
        "st_shared(row, ld_global_nc<16>(a + lane * 4));\n"
        "warp_sync();\n"
        f"unsigned r[{matrices}];\n"
        f"ldmatrix_x{matrices}{trans}(r, row);\n"
        f"for (int i = 0; i < {matrices}; ++i) st_global(o + lane * {matrices} + i, AlignedVector<4>{{{{r[i]}}}});",
        "const unsigned* a, const unsigned* order, unsigned* o",
    )
    arguments = (words("a", "input", 128), words("order", "input", 32), words("o", "output", 32 * matrices))
    inputs = {"a": tile.view(np.uint32).reshape(-1), "order": order}
    out = output_of(run(source, arguments, inputs, shared=512)).view(np.uint16).reshape(32, matrices, 2)
    for matrix in range(matrices):
        m = tile[matrix * 8 : matrix * 8 + 8]
        m = m.T if trans else m
        for lane in range(32):
            row, col = lane // 4, lane % 4 * 2
            np.testing.assert_array_equal(out[lane, matrix], m[row, col : col + 2])


def test_movmatrix(run: Run) -> None:
    matrix = np.random.default_rng(6).integers(0, 2**16, (8, 8), dtype=np.uint16)
    source = entry(
        "const unsigned lane = threadIdx.x;\nunsigned r;\n"
        'asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(a[lane]));\n'
        "o[lane] = r;",
        "const unsigned* a, unsigned* o",
    )
    arguments = (words("a", "input", 32), words("o", "output", 32))
    out = output_of(run(source, arguments, {"a": matrix.view(np.uint32).reshape(-1)}))
    np.testing.assert_array_equal(out.view(np.uint16).reshape(8, 8), matrix.T)


def test_atomics_and_barriers_count_every_thread(run: Run) -> None:
    source = entry(
        "const unsigned before = atomic_add(w, 2);\n"
        "st_global(o + blockIdx.x * 48 + threadIdx.x, AlignedVector<4>{{before}});\n"
        "barrier_sync();\n"
        "if (before == 2 * 96 - 2) st_global(w, AlignedVector<4>{{0}});",
        "unsigned* o, unsigned* w",
    )
    arguments = (words("o", "output", 96), Operand("w", "workspace", U32, (1,), zeroed=True))
    out = output_of(run(source, arguments, {}, grid=2, block=48))
    np.testing.assert_array_equal(np.sort(out), np.arange(0, 192, 2))


def test_producers_and_consumers_with_named_barriers(run: Run) -> None:
    # Warps 0 and 1 fill a buffer, which warps 2 and 3 read. Barrier 1 signals "full", and barrier 2 signals "empty".
    source = entry(
        "const unsigned t = threadIdx.x, s = shared_memory();\n"
        "if (t < 64) {\n"
        "  for (int i = 0; i < 4; ++i) {\n"
        "    if (i > 0) barrier_sync(2, 128);\n"
        "    st_shared(s + t * 4, ld_global_nc<4>(a + i * 64 + t));\n"
        "    barrier_arrive(1, 128);\n"
        "  }\n"
        "} else {\n"
        "  float sum = 0;\n"
        "  for (int i = 0; i < 4; ++i) {\n"
        "    barrier_sync(1, 128);\n"
        "    sum += float_of(ld_shared<4>(s + (127 - t) * 4).word[0]);\n"
        "    if (i < 3) barrier_arrive(2, 128);\n"
        "  }\n"
        "  st_global(o + t - 64, packet(sum));\n"
        "}"
    )
    a = np.arange(256, dtype=np.float32)
    arguments = (Operand("a", "input", F32, (256,)), Operand("o", "output", F32, (64,)))
    out = output_of(run(source, arguments, {"a": a}, block=128, shared=256))
    np.testing.assert_array_equal(out, a.reshape(4, 64).sum(axis=0)[::-1])


def test_a_thread_may_wait_for_another_of_its_block(run: Run) -> None:
    source = entry(
        "if (threadIdx.x == 0) {\n"
        "  while (ld_global_cg<4>(w).word[0] == 0) {\n"
        "  }\n"
        "  st_global(w, AlignedVector<4>{{0}});\n"
        "} else if (threadIdx.x == 40) {\n"
        "  atomic_add(w, 1);\n"
        "}\n"
        "st_global(o + threadIdx.x, AlignedVector<4>{{threadIdx.x}});",
        "unsigned* o, unsigned* w",
    )
    arguments = (words("o", "output", 64), Operand("w", "workspace", U32, (1,), zeroed=True))
    emulation = run(source, arguments, {}, block=64)
    np.testing.assert_array_equal(emulation.outputs["o"], np.arange(64))
    # The resetting thread has observed all atomics, so the reset is ordered after them (PTX ISA, causality order).
    assert not emulation.findings


def test_static_shared_memory(run: Run) -> None:
    source = entry(
        "__shared__ float tile[64];\n"
        "__shared__ __align__(16) unsigned last[4];\n"
        "const unsigned t = threadIdx.x;\n"
        "const unsigned s = static_cast<unsigned>(__cvta_generic_to_shared(tile));\n"
        "st_shared(s + t * 4, ld_global_nc<4>(a + blockIdx.x * 64 + t));\n"
        "st_shared(shared_memory() + t * 4, packet(1));\n"
        "if (t == 0) st_shared(static_cast<unsigned>(__cvta_generic_to_shared(&last[3])), AlignedVector<4>{{2}});\n"
        "barrier_sync();\n"
        "const float x = tile[63 - t];\n"
        "st_global(o + blockIdx.x * 64 + t, packet(x + float_of(ld_shared<4>(shared_memory() + t * 4).word[0])\n"
        "                                         + float(last[3])));"
    )
    a = np.arange(128, dtype=np.float32)
    arguments = (Operand("a", "input", F32, (128,)), Operand("o", "output", F32, (128,)))
    out = output_of(run(source, arguments, {"a": a}, grid=2, block=64, shared=256))
    np.testing.assert_array_equal(out, a.reshape(2, 64)[:, ::-1].reshape(-1) + 3)


def test_outputs_are_poisoned(run: Run) -> None:
    emulation = run(
        entry("if (threadIdx.x == 0) st_global(o, packet(1));", "float* o"), (Operand("o", "output", F32, (4,)),), {}
    )
    assert emulation.status == "findings"
    np.testing.assert_array_equal(emulation.outputs["o"].view(np.uint32), [0x3F800000, *[0xFFFFFFFF] * 3])


def test_decimal_literals_are_as_wide_as_their_instruction_takes_them(run: Run) -> None:
    source = entry(
        "float x = float_of(ld_global_nc<4>(a + threadIdx.x).word[0]), y, s; double z;\n"
        'asm("fma.rn.f32 %0, %0, 2.5, -1.0;" : "+f"(x));\n'
        'asm("mov.f32 %0, 0.25;" : "=f"(y));\n'
        'asm("{ .reg .pred p; setp.gt.f32 p, %1, 20.5; selp.f32 %0, 8.0, 4.0, p; }" : "=f"(s) : "f"(x));\n'
        'asm("add.f64 %0, %1, 0.125;" : "=d"(z) : "d"(double(x)));\n'
        "st_global(o + threadIdx.x, packet(float(z) + y + s));"
    )
    a = np.arange(64, dtype=np.float32)
    arguments = (Operand("a", "input", F32, (64,)), Operand("o", "output", F32, (64,)))
    x = a * 2.5 - 1
    out = output_of(run(source, arguments, {"a": a}, block=64))
    np.testing.assert_array_equal(out, x + 0.375 + np.where(x > 20.5, 8, 4))
