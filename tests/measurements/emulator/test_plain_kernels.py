"""Plain CUDA C++ kernels without ``autosched/ptx`` that use the language's features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from measurements.emulator import Emulation, emulate
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand

Run = Callable[..., Emulation]
Size = int | tuple[int, int, int]

FULL = "0xffffffffu"


def f32(name: str, role: str, *shape: int) -> Operand:
    return Operand(name, "input" if role == "input" else "output", F32, shape)


def words(
    run: Run, body: str, count: int, *, before: str = "", grid: Size = 1, block: Size = 32, shared: int = 0
) -> npt.NDArray[np.uint32]:
    """Return the output that ``body`` writes to ``unsigned o[count]``."""
    source = f'{before}\nextern "C" __global__ void kernel(unsigned* o) {{\n{body}\n}}\n'
    out = Operand("o", "output", U32, (count,))
    emulation = run(source, [out], {}, grid=grid, block=block, shared=shared)
    assert emulation.ok, emulation.reason + emulation.log
    return emulation.outputs["o"].view(np.uint32)


def floats(
    run: Run, source: str, a: npt.NDArray[np.float32], count: int, *, grid: Size = 1, block: Size = 32, shared: int = 0
) -> npt.NDArray[np.float32]:
    """Return the output that ``kernel(const float* a, float* o)`` writes to ``o[count]``."""
    arguments = [f32("a", "input", *a.shape), f32("o", "output", count)]
    emulation = run(source, arguments, {"a": a}, grid=grid, block=block, shared=shared)
    assert emulation.ok, emulation.reason + emulation.log
    return emulation.outputs["o"].view(np.float32)


def normal(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


LANES = np.arange(32, dtype=np.uint32)


# Indices -------------------------------------------------------------------------------------------------------------


def test_indices_have_three_dimensions(run: Run) -> None:
    body = """
    const uint3 t = threadIdx;
    dim3 b(blockDim), unit;
    unsigned thread = t.x + b.x * (t.y + b.y * t.z);
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    o[i] = ((((t.x * 10 + t.y) * 10 + t.z) * 10 + blockIdx.x) * 10 + blockIdx.y) * 10 + blockIdx.z + unit.z - 1;
    """
    ours = words(run, body, 2 * 4 * 3 * 5 * 3 * 2, grid=(2, 4, 3), block=(5, 3, 2))
    bz, by, bx, tz, ty, tx = np.indices((3, 4, 2, 2, 3, 5))
    np.testing.assert_array_equal(ours, (((((tx * 10 + ty) * 10 + tz) * 10 + bx) * 10 + by) * 10 + bz).ravel())


# Shared memory -------------------------------------------------------------------------------------------------------

TRANSPOSE = """
#define TILE 16
template <typename T, int PAD>
__device__ __forceinline__ void transpose(const T* __restrict__ a, T* __restrict__ o, int rows, int cols) {
  __shared__ T tile[TILE][TILE + PAD];
  __shared__ alignas(16) float corner[4], edges[2 * TILE];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  if (y < rows && x < cols) tile[threadIdx.y][threadIdx.x] = a[y * cols + x];
  if (threadIdx.x == 0) edges[threadIdx.y] = 0.5f;
  if (threadIdx.x == 0 && threadIdx.y == 0) corner[3] = 1.5f;
  SYNC
  x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
  if (x < rows && y < cols) o[y * rows + x] = tile[threadIdx.x][threadIdx.y] + edges[threadIdx.x] + corner[3];
}
extern "C" __global__ void __launch_bounds__(TILE * TILE) kernel(const float* __restrict__ a, float* __restrict__ o) {
  if (blockIdx.x % 2 == 0) transpose<float, 0>(a, o, 37, 21);
  else transpose<float, 1>(a, o, 37, 21);
}
"""


def test_static_shared_memory_in_templates(run: Run) -> None:
    a = np.rint(normal(37, 21) * np.float32(100))
    ours = floats(run, TRANSPOSE.replace("SYNC", "__syncthreads();"), a, a.size, grid=(2, 3, 1), block=(16, 16, 1))
    np.testing.assert_array_equal(ours.reshape(21, 37), a.T + np.float32(2))


def test_a_missing_barrier_is_a_race_and_shows_in_the_numbers(run: Run) -> None:
    arguments = [f32("a", "input", 37, 21), f32("o", "output", 37 * 21)]
    done = run(TRANSPOSE.replace("SYNC", ""), arguments, {"a": normal(37, 21)}, grid=(2, 3, 1), block=(16, 16, 1))
    assert "shared_race" in {str(f.kind) for f in done.findings} and np.isnan(done.outputs["o"]).any()


def test_shared_memory_does_not_persist_between_blocks(run: Run) -> None:
    """If a block reads shared memory before writing, the values are neither zeros nor the previous block's values."""
    before = (
        "__shared__ unsigned outer[3];\ninline __device__ unsigned& own() { static __shared__ unsigned x; return x; }"
    )
    body = """
    volatile __shared__ unsigned inner[2];
    o[blockIdx.x] = inner[1] & outer[2] & own();
    inner[1] = outer[2] = own() = blockIdx.x;
    o[4 + blockIdx.x] = inner[1] + outer[2] + own();
    """
    source = f'{before}\nextern "C" __global__ void kernel(unsigned* o) {{\n{body}\n}}\n'
    done = run(source, [Operand("o", "output", U32, (8,))], {}, grid=4, block=1)
    assert {str(f.kind) for f in done.findings} == {"uninitialized_shared_read"}
    np.testing.assert_array_equal(done.outputs["o"], [0xFFFFFFFF] * 4 + [0, 3, 6, 9])


@pytest.mark.parametrize(
    "declaration",
    [
        "extern __shared__ float s[];",
        "extern __shared__ __align__(16) unsigned char bytes[]; float* s = reinterpret_cast<float*>(bytes);",
        "extern volatile __shared__ float s[];",
        "__shared__ extern float s[];",
        "extern __shared__ float4 wide[]; float* s = &wide[0].x;",
        "extern __shared__ float rows[][8]; float* s = rows[0];",
    ],
)
def test_dynamic_shared_memory(run: Run, declaration: str) -> None:
    source = f"""
    extern "C" __global__ void kernel(const float* a, float* o) {{
      {declaration}
      unsigned i = threadIdx.x;
      s[i] = a[i];
      __syncthreads();
      o[i] = s[63 - i];
    }}"""
    a = normal(64)
    np.testing.assert_array_equal(floats(run, source, a, 64, block=64, shared=256), a[::-1])


def test_dynamic_shared_memory_outside_of_a_function(run: Run) -> None:
    source = """
    extern __shared__ float outer[];
    template <class T> __device__ T* later() { extern __shared__ T typed[]; return typed + 32; }
    extern "C" __global__ void kernel(const float* a, float* o) {
      later<float>()[threadIdx.x] = a[threadIdx.x];
      __syncwarp();
      o[threadIdx.x] = outer[32 + (threadIdx.x ^ 1)];
    }"""
    a = normal(32)
    np.testing.assert_array_equal(floats(run, source, a, 32, shared=256), a[LANES ^ 1])


# Barriers and warps --------------------------------------------------------------------------------------------------


def test_barriers_that_count(run: Run) -> None:
    body = """
    unsigned i = threadIdx.x, sum = 0;
    for (unsigned k = 0; k < 5; ++k) sum += __syncthreads_count(i < 10 * k) << 6 * k;
    bool all = __syncthreads_and(i < 40), most = __syncthreads_and(i < 39), one = __syncthreads_or(i == 39);
    o[blockIdx.x * 40 + i] = sum + (all << 30) + (most << 31) + (__syncthreads_or(i == 40) << 31) + (one << 30);
    """
    expected = sum(min(10 * k, 40) << 6 * k for k in range(5)) + (1 << 31)
    np.testing.assert_array_equal(words(run, body, 80, grid=2, block=40), expected)


def test_barriers_that_count_start_anew_with_each_block(run: Run) -> None:
    body = "o[blockIdx.x * 32 + threadIdx.x] = __syncthreads_count(threadIdx.x < 7);"
    np.testing.assert_array_equal(words(run, body, 96, grid=3), 7)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (f"__shfl_sync({FULL}, x, 5)", np.full(32, 5)),
        (f"__shfl_sync({FULL}, x, i + 1)", (LANES + 1) % 32),
        (f"__shfl_sync({FULL}, x, 5, 8)", LANES // 8 * 8 + 5),
        (f"__shfl_up_sync({FULL}, x, 3)", np.where(LANES < 3, LANES, LANES - 3)),
        (f"__shfl_up_sync({FULL}, x, 3, 8)", np.where(LANES % 8 < 3, LANES, LANES - 3)),
        (f"__shfl_down_sync({FULL}, x, 3)", np.where(LANES > 28, LANES, LANES + 3)),
        (f"__shfl_down_sync({FULL}, x, 3, 8)", np.where(LANES % 8 > 4, LANES, LANES + 3)),
        (f"__shfl_xor_sync({FULL}, x, 17)", LANES ^ 17),
        (f"__shfl_xor_sync({FULL}, x, 9, 8)", np.where((LANES ^ 9) // 8 > LANES // 8, LANES, LANES ^ 9)),
        (f"(unsigned)__shfl_xor_sync({FULL}, (float)x, 1)", LANES ^ 1),
        (f"(unsigned)(__shfl_down_sync({FULL}, x * 10000000000ull, 1) / 10000000000ull)", np.minimum(LANES + 1, 31)),
        (f"__ballot_sync({FULL}, i % 3 == 0)", np.full(32, sum(1 << i for i in range(0, 32, 3)))),
        (f"__any_sync({FULL}, i == 9) * 2 + __any_sync({FULL}, i == 32)", np.full(32, 2)),
        (f"__all_sync({FULL}, i < 32) * 2 + __all_sync({FULL}, i < 31)", np.full(32, 2)),
        (f"__match_any_sync({FULL}, i % 8)", 0x01010101 << LANES % 8),
        (f"__reduce_add_sync({FULL}, x) + __reduce_max_sync({FULL}, x)", np.full(32, 31 * 16 + 31)),
        ("__activemask() - i", 0xFFFFFFFF - LANES),
        ("i < 20 ? __activemask() : __activemask() + 1", np.where(LANES < 20, 0xFFFFF, 0xFFF00001)),
    ],
)
def test_lanes_exchange_values(run: Run, call: str, expected: npt.NDArray[np.uint32]) -> None:
    ours = words(run, f"unsigned i = threadIdx.x % 32, x = i;\no[threadIdx.x] = {call};", 64, block=64)
    np.testing.assert_array_equal(ours.reshape(2, 32), np.stack([expected, expected]).astype(np.uint32))


def test_some_lanes_exchange_values(run: Run) -> None:
    """A shuffle with a mask waits only for existing lanes, not for exited lanes or missing lanes of a partial warp."""
    body = """
    unsigned i = threadIdx.x, x = i;
    if (i < 8) {
      for (int d = 4; d > 0; d /= 2) x += __shfl_down_sync(0xff, x, d, 8);
    } else if (i >= 32) {
      x = __shfl_xor_sync(0xffffffffu, x, 1);
    } else if (i % 2) {
      unsigned mask = __activemask();
      x = __shfl_sync(mask, x, __ffs(mask) - 1) + __popc(mask);
      __syncwarp(mask);
    } else {
      o[i] = 1000;
      return;
    }
    x = __shfl_sync(__activemask(), x, 0);
    o[i] = x;
    """
    ours = words(run, body, 42, block=42)
    np.testing.assert_array_equal(ours[:8], 28)
    np.testing.assert_array_equal(ours[8:32:2], 1000)
    np.testing.assert_array_equal(ours[9:32:2], 28)
    np.testing.assert_array_equal(ours[32:], 33)


def test_a_lane_that_never_arrives_is_a_finding(run: Run) -> None:
    source = """extern "C" __global__ void kernel(unsigned* o) {
      if (threadIdx.x == 3) __syncthreads();
      o[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1u, 1);
    }"""
    emulation = run(source, [Operand("o", "output", U32, (32,))], {})
    assert emulation.status == "findings"
    assert {str(f.kind) for f in emulation.findings} >= {"missing_lanes", "barrier_not_reached"}
    assert any("needs the lanes 0xffffffff of warp 0" in f.message for f in emulation.findings)


def test_a_mask_without_the_lane_itself_is_a_finding(run: Run) -> None:
    source = """extern "C" __global__ void kernel(unsigned* o) { o[threadIdx.x] = __any_sync(0xfffffffeu, 1); }"""
    emulation = run(source, [Operand("o", "output", U32, (32,))], {})
    assert [str(f.kind) for f in emulation.findings] == ["invalid_argument"]
    assert "thread (0, 0, 0)" in emulation.reason


# Memory --------------------------------------------------------------------------------------------------------------


def test_atomics_on_global_and_shared_memory(run: Run) -> None:
    before = """
    __device__ unsigned total = 3;
    __device__ int least = 0x7fffffff, most = -5;
    __device__ float sum;
    __device__ double precise;
    __device__ unsigned long long wide;
    """
    body = """
    __shared__ unsigned local, ring;
    __shared__ float real;
    __shared__ int lock, guarded;
    unsigned i = threadIdx.x;
    if (i == 0) { local = 0; ring = 0; real = 0.0f; lock = 0; guarded = 0; }
    __syncthreads();
    atomicAdd(&total, 1);
    atomicMin(&least, 10 - (int)i);
    atomicMax(&most, -(int)i - 2);
    atomicAdd(&sum, 0.5f);
    atomicAdd(&precise, 0.25);
    atomicAdd(&wide, 1ull << 33);
    atomicAdd(&local, i);
    atomicInc(&ring, 6);
    atomicAdd(&real, 1);
    if (i == 0) o[0] = o[1] = 0;
    __syncthreads();
    atomicOr(&o[0], 1u << i % 32);
    atomicExch(&o[1], 77u);
    for (bool done = false; !done;) {
      if (atomicCAS(&lock, 0, 1) == 0) {
        atomicAdd(&guarded, 1);
        atomicExch(&lock, 0);
        done = true;
      }
    }
    __syncthreads();
    if (i == 0) {
      o[2] = total; o[3] = least; o[4] = most; o[5] = sum * 2; o[6] = precise * 4; o[7] = wide >> 33;
      o[8] = local; o[9] = ring; o[10] = real; o[11] = guarded;
    }
    """
    ours = words(run, body, 12, before=before, block=64)
    expected = [0xFFFFFFFF, 77, 67, 10 - 63, -2, 64, 64, 64, 63 * 32, 64 % 7, 64, 64]
    np.testing.assert_array_equal(ours.view(np.int32), np.array(expected, np.int64).astype(np.uint32).view(np.int32))


@pytest.mark.parametrize("how", ["__forceinline__", "__noinline__"])
@pytest.mark.parametrize("block", [3, 32, 40])
def test_a_lane_with_a_lock_continues_while_other_lanes_wait(run: Run, how: str, block: int) -> None:
    """Lanes that have released the lock wait for all other lanes, some of which still wait for the lock."""
    before = f"""
    __device__ {how} void take(unsigned* lock) {{
      while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
      __threadfence_block();
    }}
    """
    body = """
    __shared__ unsigned lock, guarded, arrived;
    if (threadIdx.x == 0) lock = guarded = arrived = 0;
    __syncthreads();
    take(&lock);
    guarded += 1;
    __threadfence_block();
    atomicExch(&lock, 0);
    atomicAdd(&arrived, 1);
    while (atomicAdd(&arrived, 0) < blockDim.x) __nanosleep(20);
    __threadfence_block();
    o[threadIdx.x] = guarded;
    """
    np.testing.assert_array_equal(words(run, body, block, before=before, block=block), block)


def test_vector_types_and_their_alignment(run: Run) -> None:
    source = """
    struct Packed { char tag; float4 v; };
    static_assert(sizeof(float3) == 12 && alignof(float3) == 4 && alignof(float2) == 8 && sizeof(Packed) == 32);
    static_assert(alignof(double2) == 16 && alignof(uchar4) == 4 && alignof(short2) == 4 && alignof(longlong4) == 16);
    __constant__ float scale[2] = {2.0f, 3.0f};
    __device__ inline float4 operator+(float4 a, float4 b) {
      return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    extern "C" __global__ void kernel(const float* __restrict__ a, float* __restrict__ o) {
      const float4* wide = reinterpret_cast<const float4*>(a);
      float4 v = __ldg(&wide[threadIdx.x]) + __ldcg(wide + threadIdx.x);
      float2 low = make_float2(v.x * scale[0], v.y * scale[1]);
      int4 whole = make_int4(1, 2, 3, 4);
      uchar4 bytes = {5, 6, 7, 8};
      reinterpret_cast<float2*>(o)[2 * threadIdx.x] = low;
      __stcs(reinterpret_cast<float2*>(o) + 2 * threadIdx.x + 1, make_float2(v.z + whole.w, v.w + bytes.x));
    }"""
    a = normal(32, 4)
    doubled = 2 * a
    expected = np.stack(
        [
            doubled[:, 0] * 2,
            doubled[:, 1] * np.float32(3),
            doubled[:, 2] + np.float32(4),
            doubled[:, 3] + np.float32(5),
        ],
        axis=1,
    )
    np.testing.assert_array_equal(floats(run, source, a, 128).reshape(32, 4), expected)


def test_a_misaligned_vector_access_is_found(run: Run) -> None:
    source = """extern "C" __global__ void kernel(const float* a, float* o) {
      float4 v = *(const float4*)(a + 1);
      *(float4*)o = v;
    }"""
    emulation = run(source, [f32("a", "input", 8), f32("o", "output", 4)], {"a": normal(8)}, block=1)
    assert [str(f.kind) for f in emulation.findings] == ["misaligned_access"]


def test_stores_of_equal_values_count_and_stores_to_inputs_are_reported(run: Run) -> None:
    """Outputs hold -1 before the launch. An element to which the kernel stores -1 still counts as written."""
    out = [Operand("o", "output", U32, (64,))]
    source = 'extern "C" __global__ void kernel(int* o) { o[threadIdx.x] = threadIdx.x % 2 ? -1 : 5; }'
    assert run(source, out, {}, block=64).ok
    nothing = run('extern "C" __global__ void kernel(int* o) {}', out, {}, block=64)
    assert [str(f.kind) for f in nothing.findings] == ["unwritten_output"]
    source = 'extern "C" __global__ void kernel(float* a, float* o) { a[7] = o[threadIdx.x] = 1.0f; }'
    changed = run(source, [f32("a", "input", 32), f32("o", "output", 32)], {"a": normal(32)})
    assert [(str(f.kind), f.message) for f in changed.findings] == [
        ("write_to_input", "thread (0, 0, 0) of block (0, 0, 0) writes element 7 of a, which is an input")
    ]


# Functions of numbers ------------------------------------------------------------------------------------------------

MATH: list[tuple[str, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]]] = [
    ("sqrtf(x)", np.sqrt),
    ("sqrt(x)", np.sqrt),
    ("rsqrtf(x)", lambda x: 1 / np.sqrt(x)),
    ("expf(-x) + exp(-x)", lambda x: 2 * np.exp(-x)),
    ("__expf(-x)", lambda x: np.exp(-x)),
    ("logf(x) + __log2f(x)", lambda x: np.log(x) + np.log2(x)),
    ("powf(x, 1.5f)", lambda x: x**1.5),
    ("(float)pow((double)x, 2.0)", lambda x: x**2),
    ("fmaf(x, x, 1.0f)", lambda x: x * x + 1),
    ("fminf(x, 1.0f) - fmaxf(x, 2.0f)", lambda x: np.minimum(x, 1) - np.maximum(x, 2)),
    ("min(x, 1.0f) - max(x, 2.0f)", lambda x: np.minimum(x, 1) - np.maximum(x, 2)),
    ("fabsf(-x) + abs(-x) + fabs(x)", lambda x: 3 * x),
    ("floorf(x) + ceil(x) + truncf(x)", lambda x: np.floor(x) + np.ceil(x) + np.trunc(x)),
    ("tanhf(x) + sinf(x) + cosf(x)", lambda x: np.tanh(x) + np.sin(x) + np.cos(x)),
    ("erff(x)", lambda x: np.vectorize(__import__("math").erf)(x)),
    ("(float)__float2int_rn(x) + (float)(int)x", lambda x: np.rint(x) + np.trunc(x)),
    ("isnan(x) || isinf(x) || x != x ? 9.0f : x", lambda x: x),
    ("__saturatef(x)", lambda x: np.clip(x, 0, 1)),
    ("(float)(1.0 / (double)x)", lambda x: 1 / x),
    ("__int_as_float(__float_as_int(x))", lambda x: x),
    ("__fdividef(1.0f, x)", lambda x: 1 / x),
]


def test_functions_of_numbers(run: Run) -> None:
    stores = "\n".join(f"o[{k} * 64 + i] = {text};" for k, (text, _) in enumerate(MATH))
    body = f"int i = threadIdx.x;\nfloat x = a[i];\n{stores}"
    source = f'extern "C" __global__ void kernel(const float* a, float* o) {{\n{body}\n}}'
    a = np.abs(normal(64)) * np.float32(3) + np.float32(0.01)
    ours = floats(run, source, a, 64 * len(MATH), block=64).reshape(len(MATH), 64)
    for (text, function), row in zip(MATH, ours, strict=True):
        np.testing.assert_allclose(row, function(a.astype(np.float64)), rtol=2e-6, atol=1e-7, err_msg=text)


def test_functions_of_integers(run: Run) -> None:
    values = {
        "max(-1, (int)i) + min(3, 5)": 3,
        "max(1u, 2)": 2,
        "min((size_t)7, (size_t)9)": 7,
        "abs(-4) + (unsigned)abs(-4LL)": 8,
        "__popc(0xff0u) + __clz(1) + __ffs(8) + __popcll(1ull << 40)": 8 + 31 + 4 + 1,
        "__umulhi(0x80000000u, 6u)": 3,
        "__byte_perm(0x33221100u, 0x77665544u, 0x7140u)": 0x77114400,
        "__brev(1u) >> 31": 1,
        "(unsigned)exp2f(3.0f) + (unsigned)sqrt(16.0) + (isnan(0.0f) ? 1 : 0)": 12,
        'printf("%d\\n", i) > 1000': 0,
        "warpSize": 32,
    }
    body = "unsigned i = threadIdx.x;\n#pragma unroll 4\nfor (int k = 0; k < 1; ++k) {\n"
    body += "\n".join(f"o[{k}] = {text};" for k, text in enumerate(values)) + "\n}"
    np.testing.assert_array_equal(words(run, body, len(values), block=1), list(values.values()))


@pytest.mark.parametrize("name", ["remove", "index", "kernel_2"])
def test_a_kernel_has_any_name(kernel_of: Callable[..., GeneratedKernel], name: str) -> None:
    source = f'extern "C" __global__ void {name}(unsigned* o) {{ o[threadIdx.x] = threadIdx.x; }}'
    kernel = dataclasses.replace(kernel_of(source, [Operand("o", "output", U32, (32,))]), entry=name)
    np.testing.assert_array_equal(emulate(kernel, {}).outputs["o"], LANES)


def test_votes_and_barriers_compact_blocks(run: Run) -> None:
    """Each block moves its positive numbers to the front. It uses votes, barriers, and counters in shared memory."""
    source = """
    #define BLOCK 96
    extern "C" __global__ void kernel(const float* a, float* o) {
      __shared__ int counts[BLOCK / 32 + 1];
      const int i = threadIdx.x, lane = i % warpSize, warp = i / warpSize;
      const float x = a[blockIdx.x * BLOCK + i];
      const unsigned positive = __ballot_sync(0xffffffffu, x > 0);
      if (lane == 0) counts[warp + 1] = __popc(positive);
      if (i == 0) counts[0] = 0;
      __syncthreads();
      if (i == 0) for (int w = 1; w <= BLOCK / 32; ++w) counts[w] += counts[w - 1];
      __syncthreads();
      float* mine = o + blockIdx.x * BLOCK;
      const int total = counts[BLOCK / 32];
      const int before = counts[warp] + __popc(positive & ((1u << lane) - 1));
      mine[x > 0 ? before : total + i - before] = x;
    }"""
    a = normal(5, 96)
    ours = floats(run, source, a, a.size, grid=5, block=96).reshape(a.shape)
    for row, values in zip(ours, a, strict=True):
        np.testing.assert_array_equal(row, np.concatenate([values[values > 0], values[~(values > 0)]]))
