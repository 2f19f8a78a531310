"""Emulated kernels of ordinary CUDA C++ agree with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched

pytestmark = [needs_nvrtc, needs_compiler]

RNG = np.random.default_rng(5)
N = 96


def run(source: str, *arguments: object, grid: int = 1, block: int = N, shared: int = 0, **more: object) -> list:
    emulation = autosched.emulate(source, arguments=arguments, grid=grid, block=block, shared_bytes=shared, **more)
    assert emulation.ok, emulation.reason
    return list(emulation.arrays)


def test_division_of_64_bits_and_bit_tricks() -> None:
    source = """
    extern "C" __global__ void kernel(long long* q, long long* r, unsigned long long* b, const long long* x,
                                      const long long* y) {
      const int i = threadIdx.x;
      q[i] = x[i] / y[i]; r[i] = x[i] % y[i];
      const unsigned long long u = x[i];
      b[i] = (u / (unsigned long long)(y[i] | 1)) ^ __brevll(u) ^ __popcll(u) ^ __clzll(u) ^ __ffsll(u) ^
             __umul64hi(u, u) ^ __funnelshift_l((unsigned)u, (unsigned)(u >> 32), i);
    }"""
    x = RNG.integers(-(2**62), 2**62, N)
    y = RNG.integers(1, 2**40, N) * RNG.choice([-1, 1], N)
    zero = np.zeros(N, np.int64)
    q, r, b, *_ = run(
        source, zero, zero.copy(), zero.astype(np.uint64), x, y
    )  # separate arrays, since an array passed twice would be shared
    expected = [(abs(int(a)) // abs(int(c))) * (1 if (a < 0) == (c < 0) else -1) for a, c in zip(x, y, strict=True)]
    np.testing.assert_array_equal(q, expected)
    np.testing.assert_array_equal(r, [int(a) - w * int(c) for a, w, c in zip(x, expected, y, strict=True)])
    expected_bits = []
    for i, (a, c) in enumerate(zip(x, y, strict=True)):
        u, v = int(a) % 2**64, (int(c) | 1) % 2**64
        low, high = u % 2**32, u >> 32
        funnel = ((high << 32 | low) << (i % 32) >> 32) % 2**32
        bits = f"{u:064b}"
        expected_bits.append(
            u // v
            ^ int(bits[::-1], 2)
            ^ u.bit_count()
            ^ (64 - u.bit_length())
            ^ (u & -u).bit_length()
            ^ u * u >> 64
            ^ funnel
        )
    np.testing.assert_array_equal(b, np.array(expected_bits, np.uint64))


def test_recursion_of_device_functions_and_function_pointers() -> None:
    source = """
    __device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    __device__ __noinline__ int twice(int n) { return 2 * n; }
    __device__ __noinline__ int minus(int n) { return -n; }
    extern "C" __global__ void kernel(int* o, int* p) {
      const int i = threadIdx.x;
      o[i] = fib(i % 12);
      int (*f)(int) = i % 3 ? twice : minus;
      p[i] = f(i);
    }"""
    o, p = run(source, np.zeros(N, np.int32), np.zeros(N, np.int32))
    fib = [0, 1]
    while len(fib) < 12:
        fib.append(fib[-1] + fib[-2])
    lanes = np.arange(N)
    np.testing.assert_array_equal(o, [fib[i % 12] for i in lanes])
    np.testing.assert_array_equal(p, np.where(lanes % 3, 2 * lanes, -lanes))


def test_a_dense_switch_jumps_by_a_table() -> None:
    cases = "\n".join(f"case {k}: x = x * {2 * k + 3} + y[{k} * 7 % 5]; y[{k} % 5] ^= x; break;" for k in range(12))
    source = f"""
    extern "C" __global__ void kernel(unsigned* o, const unsigned* op) {{
      unsigned x = threadIdx.x, y[5] = {{1, 2, 3, 4, 5}};
      for (int s = 0; s < 6; ++s) {{
        switch (op[threadIdx.x * 6 + s]) {{ {cases} default: x -= 7; }}
      }}
      o[threadIdx.x] = x ^ y[x % 5];
    }}"""
    op = RNG.integers(0, 14, (N, 6)).astype(np.uint32)
    (o, _) = run(source, np.zeros(N, np.uint32), op)
    for i in range(N):
        x, y = i, [1, 2, 3, 4, 5]
        for k in op[i].tolist():
            if k < 12:
                x = (x * (2 * k + 3) + y[k * 7 % 5]) % 2**32
                y[k % 5] ^= x
            else:
                x = (x - 7) % 2**32
        assert o[i] == x ^ y[x % 5]


def test_a_scan_of_a_block_with_dynamic_shared_memory() -> None:
    source = """
    template <int Threads> __device__ float scan(float x, float* warps) {
      const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
      for (int d = 1; d < 32; d *= 2) { const float y = __shfl_up_sync(~0u, x, d); if (lane >= d) x += y; }
      if (lane == 31) warps[warp] = x;
      __syncthreads();
      float before = 0;
      for (int w = 0; w < warp; ++w) before += warps[w];
      return x + before;
    }
    extern "C" __global__ void kernel(float* o, const float* a) {
      extern __shared__ float warps[];
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      o[i] = scan<96>(__ldg(a + i), warps);
    }"""
    a = RNG.integers(-9, 9, (4, N)).astype(np.float32)
    o, _ = run(source, np.zeros((4, N), np.float32), a, grid=4, shared=12)
    np.testing.assert_array_equal(o, np.cumsum(a, axis=1))


def test_structs_by_value_and_constants() -> None:
    source = """
    struct Line { double slope; short shift; float3 weights; };
    __constant__ int table[4] = {10, 20, 30, 40};
    __device__ int counter = 5;
    extern "C" __global__ void kernel(double* o, const Line line) {
      const int i = threadIdx.x;
      o[i] = line.slope * i + line.shift + line.weights.z * table[i % 4];
      if (i == 0) atomicAdd(&counter, 1);
      __syncthreads();
      o[i] += *(volatile int*)&counter;
    }"""
    layout = np.dtype({"names": ["slope", "shift", "x", "y", "z"], "formats": ["f8", "i2", "f4", "f4", "f4"],
                       "offsets": [0, 8, 12, 16, 20], "itemsize": 24})  # fmt: skip
    line = np.zeros((), layout)
    line["slope"], line["shift"], line["z"] = 0.5, -3, 2.0
    o, _ = run(source, np.zeros(N), line[()])
    i = np.arange(N)
    np.testing.assert_array_equal(o, 0.5 * i - 3 + 2.0 * np.array([10, 20, 30, 40])[i % 4] + 6)


def test_votes_match_and_redux() -> None:
    source = """
    extern "C" __global__ void kernel(unsigned* o, const unsigned* x) {
      const int i = threadIdx.x, lane = i % 32;
      unsigned v = x[i], all = 0xffffffffu;
      unsigned r = __reduce_add_sync(all, v) ^ __reduce_min_sync(all, v) ^ __reduce_or_sync(all, v << 7);
      r ^= __reduce_max_sync(all, (int)v - 100);
      r ^= __match_any_sync(all, v % 5);
      int same;
      r ^= __match_all_sync(all, v / 200, &same) + same;  // all lanes and 1: 0
      r ^= __ballot_sync(all, v & 1) * (__all_sync(all, v < 100) + 2 * __any_sync(all, v > 98));
      if (lane < 20) r += __shfl_xor_sync(0xfffffu, v, 2) + __popc(__activemask());
      o[i] = r;
    }"""
    x = RNG.integers(0, 100, N).astype(np.uint32)
    o, _ = run(source, np.zeros(N, np.uint32), x)
    for w in range(0, N, 32):
        v = [int(t) for t in x[w : w + 32]]
        common = sum(v) ^ min(v) ^ (np.bitwise_or.reduce(np.array(v) << 7)) ^ ((max(v) - 100) % 2**32)
        ballot = sum((t & 1) << k for k, t in enumerate(v))
        common ^= ballot * (1 + 2 * (max(v) > 98)) % 2**32
        for k, t in enumerate(v):
            r = int(common) ^ sum(1 << j for j, u in enumerate(v) if u % 5 == t % 5)
            if k < 20:
                r = (r + v[k ^ 2] + 20) % 2**32
            assert o[w + k] == r, (w, k)


def test_double_math_and_printf() -> None:
    source = """
    extern "C" __global__ void kernel(double* o, const double* x) {
      const int i = threadIdx.x;
      if (i == 3) printf("%d %f\\n", i, x[i]);
      o[i] = sqrt(x[i]) + exp(-x[i]) * sin(x[i]) + log(x[i]) / (1.0 + pow(x[i], 1.5)) + fma(x[i], x[i], 0.25) +
             floor(x[i]) + rint(x[i] * 3) + (double)(float)x[i] + (double)(int)x[i] + fmod(x[i], 0.7);
    }"""
    x = RNG.uniform(0.1, 9, N)
    o, _ = run(source, np.zeros(N), x)
    expected = (
        np.sqrt(x) + np.exp(-x) * np.sin(x) + np.log(x) / (1 + x**1.5) + x * x + 0.25 + np.floor(x) + np.rint(3 * x)
        + x.astype(np.float32) + np.trunc(x) + np.fmod(x, 0.7)
    )  # fmt: skip
    np.testing.assert_allclose(o, expected, rtol=1e-14)


def test_local_arrays_and_bytes() -> None:
    source = """
    extern "C" __global__ void kernel(unsigned char* o, const unsigned char* x, int n) {
      unsigned char stack[64] = {};
      int top = 0;
      for (int k = 0; k < n; ++k) {
        unsigned char c = x[threadIdx.x * n + k];
        if (c % 3 && top) c += stack[--top]; else stack[top++] = c;
        stack[(top + k) % 64] = c ^ k;
      }
      short4 s = make_short4(stack[0], -stack[1], stack[2] << 4, top);
      o[threadIdx.x] = s.x + s.y + s.z + s.w;
    }"""
    n = 40
    x = RNG.integers(0, 256, (N, n)).astype(np.uint8)
    o, *_ = run(source, np.zeros(N, np.uint8), x, np.int32(n))
    for i in range(N):
        stack, top = [0] * 64, 0
        for k, c in enumerate(x[i].tolist()):
            if c % 3 and top:
                top -= 1
                c = (c + stack[top]) % 256
            else:
                stack[top] = c
                top += 1
            stack[(top + k) % 64] = c ^ k
        assert o[i] == (stack[0] - stack[1] + (stack[2] << 4) + top) % 256


@needs_cuda_headers
def test_arithmetic_of_half2_and_bfloat162() -> None:
    source = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void kernel(__half2* o, __nv_bfloat162* p, const __half2* x, const __half2* y) {
      const int i = threadIdx.x;
      const __half2 a = x[i], b = y[i];
      __half2 r = __hfma2(a, b, __hadd2(a, __hneg2(b)));
      r = __hmax2(r, __hmul2(b, __float2half2_rn(0.5f)));
      if (__hgt(__low2half(a), __high2half(b))) r = __lowhigh2highlow(r);
      o[i] = r;
      p[i] = __hfma2(__float22bfloat162_rn(__half22float2(a)), __float2bfloat162_rn(2.0f), __float2bfloat162_rn(-1.0f));
    }"""
    x, y = (RNG.standard_normal((N, 2)).astype(np.float16) for _ in range(2))
    o, p, *_ = run(source, np.zeros((N, 2), np.float16), np.zeros((N, 2), np.uint16), x, y)
    add = (x + -y).astype(np.float16)
    r = np.maximum((x.astype(np.float64) * y + add).astype(np.float16), (y * np.float16(0.5)).astype(np.float16))
    swap = x[:, 0] > y[:, 1]
    np.testing.assert_array_equal(o, np.where(swap[:, None], r[:, ::-1], r))
    brain = (p.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(brain, 2 * x.astype(np.float32) - 1, rtol=2**-6, atol=2**-6)


@needs_cuda_headers
def test_groups_of_threads_that_cooperate() -> None:
    source = """
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void kernel(int* o, const int* x) {
      cg::thread_block block = cg::this_thread_block();
      auto tile = cg::tiled_partition<8>(block);
      const int i = block.thread_rank();
      int sum = cg::reduce(tile, x[i], cg::plus<int>());
      if (x[i] > 0) {
        auto active = cg::coalesced_threads();
        sum += 1000 * active.size() + active.shfl(x[i], 0) * 0;
      }
      block.sync();
      o[i] = sum + tile.meta_group_rank() * 100000;
    }"""
    x = RNG.integers(-9, 9, N).astype(np.int32)
    o, _ = run(source, np.zeros(N, np.int32), x)
    positive = np.repeat((x > 0).reshape(-1, 32).sum(axis=1), 32)
    expected = (
        np.repeat(x.reshape(-1, 8).sum(axis=1), 8) + np.where(x > 0, 1000 * positive, 0) + np.arange(N) // 8 * 100000
    )
    np.testing.assert_array_equal(o, expected)


def atomic(instruction: str, elements: int, registers: str, constraint: str, returns: bool) -> str:
    """Return a kernel with a vector atomic of ``elements`` registers. Eight threads update each vector."""
    kind = {"f": "float", "r": "unsigned", "h": "unsigned short"}[constraint]
    into = ", ".join(f"%{k}" for k in range(elements))
    address = elements if returns else 0
    values = ", ".join(f"%{address + 1 + k}" for k in range(elements))
    outs = ", ".join(f'"={constraint}"(old[{k}])' for k in range(elements)) if returns else ""
    operands = ", ".join(f'"{constraint}"(x[{elements} * i + {k}])' for k in range(elements))
    left = f"{{{into}}}, " if returns else ""
    return f"""
    extern "C" __global__ void kernel({kind}* sums, {kind}* before, const {kind}* x) {{
      const int i = threadIdx.x;
      {kind} old[{elements}] = {{}};
      asm volatile("{instruction} {left}[%{address}], {{{values}}};"
                   : {outs} : "l"(sums + i / 8 * {elements}), {operands} : "memory");
      for (int k = 0; k < {elements}; ++k) before[{elements} * i + k] = old[k];
    }}
    // wgmma: what sm_90a has
    """


@pytest.mark.parametrize("returns", [False, True], ids=["red", "atom"])
@pytest.mark.parametrize("elements", [2, 4])
def test_vectors_of_floats_are_added_element_by_element(elements: int, returns: bool) -> None:
    opcode = "atom" if returns else "red"
    source = atomic(f"{opcode}.global.add.v{elements}.f32", elements, "f32", "f", returns)
    x = RNG.integers(-50, 50, (N, elements)).astype(np.float32)
    start = RNG.integers(-50, 50, (N // 8, elements)).astype(np.float32)
    sums, before, _ = run(source, start, np.zeros((N, elements), np.float32), x)
    np.testing.assert_array_equal(sums, start + x.reshape(-1, 8, elements).sum(axis=1))
    if returns:
        running = np.concatenate(
            [start[:, None], start[:, None] + np.cumsum(x.reshape(-1, 8, elements), axis=1)], axis=1
        )
        np.testing.assert_array_equal(np.sort(before.reshape(-1, 8, elements), axis=1), np.sort(running[:, :8], axis=1))


@pytest.mark.parametrize(("form", "elements"), [("v2.f16x2", 2), ("v4.f16x2", 4), ("v8.f16", 8), ("v4.f16", 4)])
@pytest.mark.parametrize("operation", ["add", "min", "max"])
def test_vectors_of_halves(operation: str, form: str, elements: int) -> None:
    pairs = form.endswith("x2")
    source = atomic(f"red.global.{operation}.noftz.{form}", elements, form, "r" if pairs else "h", False)
    wide = 2 * elements if pairs else elements
    x = RNG.integers(-20, 20, (N, wide)).astype(np.float16)
    start = RNG.integers(-20, 20, (N // 8, wide)).astype(np.float16)
    words = np.uint32 if pairs else np.uint16
    sums, *_ = run(source, start.view(words), np.zeros((N, elements), words), x.view(words))
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}[operation]
    expected = ufunc(start, ufunc.reduce(x.reshape(-1, 8, wide), axis=1))
    np.testing.assert_array_equal(sums.view(np.float16), expected)


def test_a_misaligned_vector_access_is_reported() -> None:
    source = atomic("red.global.add.v2.f32", 2, "f32", "f", False).replace("sums + i", "sums + 1 + i")
    emulation = autosched.emulate(
        source, arguments=(np.zeros(32, np.float32), np.zeros((N, 2), np.float32), np.zeros((N, 2), np.float32)),
        grid=1, block=N,
    )  # fmt: skip
    assert [str(f.kind) for f in emulation.findings] == ["misaligned_access"]


TEXTURES = r"""
extern "C" __global__ void fetched(float* out, cudaTextureObject_t from) {
  out[threadIdx.x] = tex1Dfetch<float>(from, threadIdx.x);
}
extern "C" __global__ void sampled(float* out, cudaTextureObject_t from) {
  out[threadIdx.x] = tex2DLod<float>(from, threadIdx.x, 0.5f, 1.0f);
}
extern "C" __global__ void read(float* out, cudaSurfaceObject_t from) {
  out[threadIdx.x] = surf2Dread<float>(from, 4 * threadIdx.x, 0);
}
extern "C" __global__ void stored(float* out, cudaSurfaceObject_t to) {
  surf2Dwrite(out[threadIdx.x], to, 4 * threadIdx.x, 0);
}
"""


@pytest.mark.parametrize(("kernel", "line"), [("fetched", 3), ("sampled", 6), ("read", 9), ("stored", 12)])
def test_an_invalid_texture_handle_is_reported_at_its_line(kernel: str, line: int) -> None:
    arguments = (np.zeros(32, np.float32), np.uint64(1))
    emulation = autosched.emulate(TEXTURES, kernel=kernel, arguments=arguments, grid=1, block=32, outputs=(0,))
    assert emulation.status == "findings" and emulation.findings[0].line == line, emulation.reason


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_accumulators_of_wmma_by_columns(kind: str) -> None:
    """Loading accumulators column-major and storing them row-major, or the reverse, transposes the matrix."""
    registers = 8 if kind == "f32" else 4
    regs = ", ".join(f"%{k}" for k in range(registers))
    c = "f" if kind == "f32" else "r"
    held = "float" if kind == "f32" else "unsigned"
    outs = ", ".join(f'"={c}"(d[{k}])' for k in range(registers))
    operands = ", ".join(f'"{c}"(d[{k}])' for k in range(registers))
    element = "float" if kind == "f32" else "unsigned short"
    stored = ", ".join(f"%{k + 2}" for k in range(registers))

    def store(order: str, to: str) -> str:
        text = f"wmma.store.d.sync.aligned.{order}.m16n16k16.global.{kind} [%0], {{{stored}}}, %1;"
        return f'asm volatile("{text}" : : "l"({to}), "r"(16), {operands} : "memory");'

    load = f"wmma.load.c.sync.aligned.col.m16n16k16.global.{kind} {{{regs}}}, [%{registers}], %{registers + 1};"
    source = f"""
    extern "C" __global__ void kernel({element}* o, const {element}* x) {{
      {held} d[{registers}];
      asm volatile("{load}" : {outs} : "l"(x), "r"(24) : "memory");
      {store("row", "o")}
      {store("col", "o + 256")}
    }}"""
    dtype = np.float32 if kind == "f32" else np.uint16
    x = RNG.integers(0, 1000, (16, 24)).astype(dtype)
    o, _ = run(source, np.zeros((2, 16, 16), dtype), x, block=32)
    np.testing.assert_array_equal(o[0], x[:, :16].T)
    np.testing.assert_array_equal(o[1], x[:, :16])


def test_functions_that_only_a_table_names() -> None:
    source = """
    typedef int (*Function)(int);
    __device__ int more(int x) { return x + 1; }
    __device__ int twice(int x) { return x * 2; }
    __device__ Function table[2] = {more, twice};
    struct Shape { __device__ virtual int area(int n) = 0; };
    struct Square : Shape { __device__ int area(int n) override { return n * n; } };
    struct Row : Shape { int w; __device__ Row(int w) : w(w) {} __device__ int area(int n) override { return n * w; } };
    extern "C" __global__ void kernel(int* o, int* p, int n) {
      const int i = threadIdx.x;
      o[i] = table[i & 1](i);
      Square square; Row row(i);
      Shape* shape = i % 3 ? (Shape*)&square : (Shape*)&row;
      p[i] = shape->area(n);
    }"""
    i = np.arange(N)
    o, p, _ = run(source, np.zeros(N, np.int32), np.zeros(N, np.int32), 5, outputs=(0, 1))
    np.testing.assert_array_equal(o, np.where(i % 2, i * 2, i + 1))
    np.testing.assert_array_equal(p, np.where(i % 3, 25, 5 * i))


SAME_VALUE = """
extern "C" __global__ void kernel(int* o, const int* x) {
  __shared__ int any;
  if (threadIdx.x == 0) any = 0;
  __syncthreads();
  if (x[threadIdx.x] > 0) any = 1;
  __syncthreads();
  if (threadIdx.x == 0) o[0] = any;
}"""


def test_warps_may_write_one_value_together() -> None:
    x = RNG.integers(-9, 9, N).astype(np.int32)
    o, _ = run(SAME_VALUE, np.zeros(1, np.int32), x, outputs=(0,))
    assert o[0] == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("any = 1", "any = threadIdx.x / 32"),  # threads write different values
        ("any = 1;\n  __syncthreads();", "any = 1;"),  # no barrier between write and read
        ("any = 0;\n  __syncthreads();", "any = 0;"),
        ("if (threadIdx.x == 0) o[0] = any;", "if (threadIdx.x == 0) o[0] = any; if (threadIdx.x == 64) any = 7;"),
    ],
)
def test_other_values_and_missing_barriers_are_races(old: str, new: str) -> None:
    assert old in SAME_VALUE
    arguments = (np.zeros(1, np.int32), np.sign(np.arange(N, dtype=np.int32)))
    emulation = autosched.emulate(SAME_VALUE.replace(old, new), arguments=arguments, grid=1, block=N)
    assert "shared_race" in {str(f.kind) for f in emulation.findings}, emulation.reason


PEEKS = """
extern "C" __global__ void kernel(int* o, const int* x, int n) {
  __shared__ int s[97];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const int next = s[threadIdx.x + 1];  // here
  o[threadIdx.x] = threadIdx.x + 1 < n ? next : -1;
}"""


def test_unused_uninitialised_shared_reads_are_no_fault() -> None:
    x = RNG.integers(0, 99, N).astype(np.int32)
    o, _, _ = run(PEEKS, np.zeros(N, np.int32), x, N, outputs=(0,))
    np.testing.assert_array_equal(o, [*x[1:], -1])
    emulation = autosched.emulate(PEEKS, arguments=(np.zeros(N, np.int32), x, N + 1), grid=1, block=N)
    assert [(str(f.kind), f.line) for f in emulation.findings] == [("uninitialized_shared_read", 6)]


def test_threads_may_own_parts_of_one_element() -> None:
    source = """
    extern "C" __global__ void kernel(unsigned char* o, int n) { if (threadIdx.x < n) o[threadIdx.x] = threadIdx.x; }"""
    o, _ = run(source, np.zeros(N // 4, np.int32), N, outputs=(0,))
    np.testing.assert_array_equal(o.view(np.uint8), np.arange(N))
    emulation = autosched.emulate(source, arguments=(np.zeros(N // 4, np.int32), N - 1), grid=1, block=N, outputs=(0,))
    assert "1 of 24 elements" in emulation.reason, emulation.reason


def test_absolute_differences_of_bytes() -> None:
    source = """
    extern "C" __global__ void kernel(unsigned* o, const unsigned* x) {
      const int i = threadIdx.x;
      o[i] = __vsadu4(x[i], x[i + 1]); o[96 + i] = __vsads2(x[i], x[i + 1]); o[192 + i] = __vabsdiffu2(x[i], x[i + 1]);
    }"""
    x = RNG.integers(0, 2**32, N + 1, dtype=np.uint64).astype(np.uint32)
    o, _ = run(source, np.zeros(3 * N, np.uint32), x, outputs=(0,))

    def parts(kind: str) -> np.ndarray:
        lanes = x.view(kind).reshape(N + 1, -1).astype(np.int64)
        return np.abs(lanes[:-1] - lanes[1:])

    np.testing.assert_array_equal(o[:N], parts("u1").sum(1))
    np.testing.assert_array_equal(o[N : 2 * N], parts("i2").sum(1))
    np.testing.assert_array_equal(o[2 * N :], parts("u2") @ [1, 1 << 16])


@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16), (8, 8, 4), (8, 8, 32), (8, 8, 128)], ids=str)
@needs_cuda_headers
def test_wmma_of_integers_bits_and_doubles(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    name = {4: "double", 16: "signed char", 32: "experimental::precision::s4", 128: "experimental::precision::b1"}[k]
    element = {4: "double", 16: "signed char"}.get(k, "int")
    sums = "double" if k == 4 else "int"
    multiply = "bmma_sync(c, a, b, c, wmma::experimental::bmmaBitOpXOR)" if k == 128 else "mma_sync(c, a, b, c)"
    source = f"""
    #include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void kernel({sums}* o, const {element}* x, const {element}* y, const {sums}* z) {{
      wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {"wmma::" if k > 16 else ""}{name}, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {"wmma::" if k > 16 else ""}{name}, wmma::col_major> b;
      wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {sums}> c;
      wmma::load_matrix_sync(a, x, {k}); wmma::load_matrix_sync(b, y, {k});
      wmma::load_matrix_sync(c, z, {n}, wmma::mem_row_major);
      wmma::{multiply};
      wmma::store_matrix_sync(o, c, {m}, wmma::mem_col_major);
    }}"""
    kind = {4: np.float64, 16: np.int8}.get(k, np.uint8)
    z = RNG.integers(-99, 99, (m, n)).astype(np.float64 if k == 4 else np.int32)
    if k <= 16:
        x, y = (RNG.integers(-128, 128, (rows, k)).astype(kind) for rows in (m, n))
        a, b = x.astype(np.int64), y.astype(np.int64)
    else:
        x, y = (RNG.integers(0, 256, (rows, k // (2 if k == 32 else 8))).astype(np.uint8) for rows in (m, n))
        if k == 32:
            a, b = (np.stack([p & 15, p >> 4], -1).reshape(len(p), k).astype(np.int64) for p in (x, y))
            a, b = (np.where(p > 7, p - 16, p) for p in (a, b))
        else:
            a, b = (np.unpackbits(p, axis=1, bitorder="little").astype(np.int64) for p in (x, y))
    expected = (a[:, None] ^ b[None]).sum(-1) if k == 128 else a @ b.T
    if element == "int":  # the kernel gets 4-bit and 1-bit elements packed in words
        x, y = x.view(np.int32), y.view(np.int32)
    o, *_ = run(source, np.zeros((n, m), z.dtype), x, y, z, block=32, outputs=(0,))
    np.testing.assert_array_equal(o.T, expected + z)
