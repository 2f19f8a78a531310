"""Arguments of `autosched.emulate` that are neither complete arrays nor numbers, and rejected arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched import Struct, Surface, TensorMapOf, Texture
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from autosched.verify.emulate.kernel_signature import find_kernel, parameters_of
from measurements.files.demangle import demangled

pytestmark = [needs_nvrtc, needs_compiler]

SOURCE = r"""
struct S { const float* x; int n; const float* y; };
struct Nested { char c; S s; double d; };
template <class T> __global__ void scale(T* out, T by) { out[threadIdx.x] *= by; }
template __global__ void scale<float>(float*, float);
__constant__ float taps[4];
__constant__ float given[2] = {5.0f, 6.0f};
__device__ int counter;
__device__ int flag;
namespace ns { __device__ float table[2] = {3.0f, 4.0f}; }
__global__ void structs(float* out, S s, Nested n) {
  const int i = threadIdx.x;
  if (i < s.n) out[i] = s.x[i] + s.y[i] + n.s.x[i] + n.d;
}
__global__ void __launch_bounds__(32) table_of(float* __restrict__ out, const float* const* many, int n) {
  for (int k = 0; k < n; ++k) out[threadIdx.x] += many[k] ? many[k][threadIdx.x] : 100;
}
__global__ void shift(float* to, const float* from) {
  const float x = from[threadIdx.x];
  __syncwarp();
  to[threadIdx.x] = x;
}
__global__ void symbols(float* out) {
  out[threadIdx.x] = taps[threadIdx.x & 3] + given[0] + ns::table[1];
  atomicAdd(&counter, 1);
}
__global__ void reads_flag(float* out) { out[threadIdx.x] = flag; }
__global__ void numbers(float* out, float a, int b, double c, float* null) { out[0] = null ? 0 : a + b + c; }
"""
INDEX = np.arange(32, dtype="f4")


def emulate(kernel: str, *arguments: Any, **options: Any) -> EmulatedLaunch:
    return autosched.emulate(SOURCE, kernel=kernel, arguments=arguments, grid=1, block=32, **options)


def test_pointers_inside_structs() -> None:
    base = np.arange(64, dtype="f4")
    s = Struct(base[:32], np.int32(30), base[16:48])
    out, structs, nested = emulate("structs", np.zeros(32, "f4"), s, Struct(np.int8(1), s, np.float64(0.5))).arrays
    np.testing.assert_array_equal(out, np.where(INDEX < 30, base[:32] + base[16:48] + base[:32] + 0.5, 0))
    np.testing.assert_array_equal(structs[2], base[16:48])
    assert nested[1][1] is None


def test_a_pointer_in_a_struct_has_bounds() -> None:
    s = Struct(np.zeros(16, "f4"), np.int32(32), INDEX)
    findings = emulate("structs", np.zeros(32, "f4"), s, Struct(np.int8(1), s, np.float64(0.5))).findings
    assert {f.kind for f in findings} == {"out_of_bounds_global"}
    assert "s.0, which has 64 bytes" in findings[0].message


def test_arrays_of_pointers() -> None:
    emulation = emulate("table_of", np.zeros(32, "f4"), [INDEX, None, INDEX + 1], np.int64(3))
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[0], 2 * INDEX + 101)
    np.testing.assert_array_equal(emulation.arrays[1][2], INDEX + 1)


def test_views_share_the_memory_of_their_array() -> None:
    base = np.arange(40, dtype="f4")
    emulation = emulate("shift", base[8:], base)
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[0], base[:32])
    np.testing.assert_array_equal(emulation.arrays[1], [*range(8), *range(32)])
    alone = emulate("shift", np.zeros(32, "f4"), base[16:])
    assert {f.kind for f in alone.findings} == {"out_of_bounds_global"}  # the kernel may access only the view


def test_aliases_at_offsets() -> None:
    emulation = emulate("shift", np.arange(40, dtype="f4"), np.zeros(0, "f4"), aliases={1: (0, 32)})
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[0][:32], np.arange(8, 40))


def test_symbols_are_set_and_read() -> None:
    taps = np.float32([1, 2, 3, 4])
    emulation = emulate(
        "symbols", np.zeros(32, "f4"), symbols={"taps": taps, "counter": None, "table": np.float32([0, 9])}
    )
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[0], taps[np.arange(32) & 3] + 5 + 9)
    assert emulation.symbols["counter"].tolist() == [32]


def test_an_unset_constant_is_reported() -> None:
    findings = emulate("symbols", np.zeros(32, "f4")).findings
    assert [(f.kind, "taps" in f.message) for f in findings] == [("unset_symbol", True)]


def test_an_unset_variable_is_reported() -> None:
    findings = emulate("reads_flag", np.zeros(32, "f4")).findings
    assert [(f.kind, "flag" in f.message) for f in findings] == [("unset_symbol", True)]
    assert emulate("reads_flag", np.zeros(32, "f4"), symbols={"flag": np.int32(1)}).ok


def test_numbers_are_converted_as_c_would() -> None:
    emulation = emulate("numbers", np.zeros(1, "f4"), np.float64(0.5), np.int64(2), np.float32(1), None)
    assert emulation.ok, emulation.reason
    assert emulation.arrays[0].tolist() == [3.5]


@pytest.mark.parametrize(
    ("kernel", "arguments", "options", "message"),
    [
        ("reads_flag", (np.zeros(32),), {}, "argument 0 (out) is an array of float64, but its parameter is float*"),
        ("reads_flag", (np.zeros(32, "i4"),), {}, "pass float32, or a view of it"),
        ("numbers", (np.zeros(1, "f4"), 1.0, 2.5, 1.0, None), {}, "argument 2 (b) is the float 2.5"),
        ("numbers", (np.zeros(1, "f4"), None, 2, 1.0, None), {}, "argument 1 (a) is None"),
        ("reads_flag", (), {}, "takes 1 argument, not 0"),
        ("table_of", (INDEX, [3], 1), {}, "an array of pointers"),
        ("structs", (INDEX, Struct(INDEX, 3, INDEX), b""), {}, "np.int32"),
        ("structs", (INDEX, Struct(INDEX, np.int32(3)), b""), {}, "has 16 bytes"),
        ("symbols", (INDEX,), {"symbols": {"nothing": 1}}, "the program has no variables named nothing; it has"),
        ("symbols", (INDEX,), {"symbols": {"taps": np.zeros(3, "f4")}}, "taps has 16 bytes"),
        ("shift", (INDEX, INDEX), {"aliases": {1: (0, 3)}}, "byte offset 3 of argument 0"),
    ],
)
def test_mismatched_arguments_are_rejected(
    kernel: str, arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r"argument|aliases|symbols") as refused:
        emulate(kernel, *arguments, **options)
    assert message in str(refused.value)


TEXTURES = r"""
extern "C" __global__ void fetch1(float* out, cudaTextureObject_t t, int from) {
  out[threadIdx.x] = tex1Dfetch<float>(t, from + (int)threadIdx.x);
}
extern "C" __global__ void fetch2(float* out, cudaTextureObject_t t, float sx, float dx, float y) {
  out[threadIdx.x] = tex2D<float>(t, sx * threadIdx.x + dx, y);
}
extern "C" __global__ void fetch3(float* out, cudaTextureObject_t t) {
  out[threadIdx.x] = tex3D<float>(t, threadIdx.x + .5f, 1.5f, 1.0f);
}
extern "C" __global__ void layers(float* out, cudaTextureObject_t t) {
  out[threadIdx.x] = tex2DLayered<float>(t, threadIdx.x + .5f, .5f, 2);
}
extern "C" __global__ void colors(float4* out, cudaTextureObject_t t) {
  out[threadIdx.x] = tex2D<float4>(t, threadIdx.x + .5f, .5f);
}
extern "C" __global__ void integers(int* out, cudaTextureObject_t t) {
  out[threadIdx.x] = tex1Dfetch<short>(t, threadIdx.x);
}
extern "C" __global__ void copy(cudaSurfaceObject_t to, cudaSurfaceObject_t from, int dx) {
  for (int y = 0; y < 2; ++y)
    surf2Dwrite(surf2Dread<float>(from, (threadIdx.x + dx) * 4, y, cudaBoundaryModeClamp), to, threadIdx.x * 4, 1 - y);
}
extern "C" __global__ void outside(cudaSurfaceObject_t to) { surf2Dwrite(1.0f, to, threadIdx.x * 4, 5); }
"""
PICTURE = np.arange(128, dtype="f4").reshape(4, 32)


def textures(kernel: str, *arguments: Any) -> EmulatedLaunch:
    return autosched.emulate(TEXTURES, kernel=kernel, arguments=arguments, grid=1, block=32)


def fetched(kernel: str, texture: Texture, *arguments: Any) -> Any:
    emulation = textures(kernel, np.zeros(32, "f4"), texture, *arguments)
    assert emulation.ok, emulation.reason
    return emulation.arrays[0]


def test_linear_memory_is_zero_outside() -> None:
    np.testing.assert_array_equal(fetched("fetch1", Texture(INDEX), 0), INDEX)
    np.testing.assert_array_equal(fetched("fetch1", Texture(INDEX), 8), [*range(8, 32), *[0] * 8])


def test_point_and_linear_fetches_of_two_dimensions() -> None:
    np.testing.assert_array_equal(fetched("fetch2", Texture(PICTURE), 1.0, 0.75, 2.9), PICTURE[2])
    between = fetched("fetch2", Texture(PICTURE, filter="linear"), 1.0, 0.5, 2.0)
    np.testing.assert_array_equal(between, (PICTURE[1] + PICTURE[2]) / 2)
    right = fetched("fetch2", Texture(PICTURE, filter="linear"), 1.0, 0.75, 1.5)
    np.testing.assert_array_equal(right, PICTURE[1] + np.where(INDEX < 31, 0.25, 0))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("wrap", np.tile(np.arange(16), 2)),
        ("mirror", [*range(16), *range(15, -1, -1)]),
        ("clamp", [*range(16), *[15] * 16]),
        ("border", [*range(16), *[7] * 16]),
    ],
)
def test_coordinates_outside_a_texture_follow_the_address_mode(mode: Any, expected: Any) -> None:
    texture = Texture(
        np.arange(16, dtype="f4").reshape(1, 16), mode=mode, normalized_coordinates=True, border=(7.0, 0.0, 0.0, 0.0)
    )
    np.testing.assert_array_equal(fetched("fetch2", texture, 1 / 16, 1 / 32, 0.5), expected)


def test_more_dimensions_layers_and_channels() -> None:
    space = np.arange(192, dtype="f4").reshape(3, 2, 32)
    np.testing.assert_array_equal(fetched("fetch3", Texture(space, filter="linear")), (space[0, 1] + space[1, 1]) / 2)
    np.testing.assert_array_equal(fetched("layers", Texture(space, layered=True)), space[2, 0])
    four = np.arange(128, dtype="u1").reshape(1, 32, 4)
    emulation = textures("colors", np.zeros((32, 4), "f4"), Texture(four, channels=4, normalized_read=True))
    np.testing.assert_allclose(emulation.arrays[0], four[0] / 255.0, rtol=1e-6)
    signed = np.arange(-16, 16, dtype="i2")
    np.testing.assert_array_equal(textures("integers", np.zeros(32, "i4"), Texture(signed)).arrays[0], signed)


def test_surfaces_are_read_and_written() -> None:
    source = np.arange(64, dtype="f4").reshape(2, 32)
    emulation = textures("copy", Surface(np.zeros((2, 32), "f4")), Surface(source), 1)
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[0], source[::-1, [*range(1, 32), 31]])


def test_misused_textures_and_surfaces_are_found() -> None:
    (outside,) = textures("outside", Surface(np.zeros((2, 32), "f4"))).findings
    assert outside.kind == "out_of_bounds_global" and "32 x 2" in outside.message
    (wrong,) = textures("fetch3", np.zeros(32, "f4"), Texture(PICTURE)).findings
    assert wrong.kind == "invalid_argument" and "2 dimensions" in wrong.message
    (none,) = textures("fetch1", np.zeros(32, "f4"), 12345, 0).findings
    assert none.kind == "invalid_argument" and "not a texture" in none.message


TMA = r"""
typedef unsigned u;
struct alignas(64) Map { char opaque[128]; };
extern "C" __global__ void load(const __grid_constant__ Map map, float* out) {
  __shared__ alignas(128) float tile[4][8];
  __shared__ alignas(8) unsigned long long bar;
  const u b = (u)__cvta_generic_to_shared(&bar), t = (u)__cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(b));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" ::"r"(b) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(t), "l"(&map), "r"(8), "r"(1), "r"(b) : "memory");
  }
  __syncthreads();
  asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra L;}" ::"r"(b) : "memory");
  out[threadIdx.x] = tile[threadIdx.x / 8][threadIdx.x % 8];
}
"""


def test_tensor_maps() -> None:
    array = np.arange(6 * 24, dtype="f4").reshape(6, 24)
    emulation = autosched.emulate(
        TMA, kernel="load", arguments=(TensorMapOf(array, box=(4, 8)), np.zeros(32, "f4")), grid=1, block=32
    )
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[1].reshape(4, 8), array[1:5, 8:16])
    with pytest.raises(ValueError, match="multiple of 16 bytes"):
        autosched.emulate(
            TMA, kernel="load", arguments=(TensorMapOf(array, box=(4, 7)), np.zeros(32, "f4")), grid=1, block=32
        )


def test_kernels_are_found_by_their_names_in_cpp() -> None:
    kernels = ["_Z5scaleIfEvPT_S0_", "_Z5scaleIdEvPT_S0_", "_ZN2ns4plusEPfi", "plain"]
    assert find_kernel("scale<float>", kernels) == kernels[0]
    assert find_kernel("ns::plus", kernels) == find_kernel("plus", kernels) == kernels[2]
    assert find_kernel("plain", kernels) == "plain"
    assert demangled(kernels[2]) == "ns::plus(float*, int)"
    with pytest.raises(ValueError, match=r"several kernels .scale.: use one of void scale<float>"):
        find_kernel("scale", kernels)
    with pytest.raises(ValueError, match=r"no kernel 'times'; it has .*ns::plus"):
        find_kernel("times", kernels)


def test_an_ambiguous_kernel_is_reported_with_all_cpp_names() -> None:
    source = "template <int N> __global__ void fill(int* x) { *x = N; }\n" + "".join(
        f"template __global__ void fill<{n}>(int*);\n" for n in (1, 2)
    )
    with pytest.raises(ValueError, match=r"--kernel: void fill<1>\(int\*\), void fill<2>\(int\*\)"):
        autosched.emulate(source, arguments=(np.zeros(1, np.int32),), grid=1, block=1)


def test_parameters_are_named_by_the_source() -> None:
    parameters = parameters_of(SOURCE, "_Z8table_ofPfPKPKfi", 3)
    assert [p.name for p in parameters] == ["out", "many", "n"]
    assert [p.type for p in parameters] == ["float*", "float const* const*", "int"]
    assert [p.type for p in parameters_of("", "_ZN2ns4plusEPfi", 2)] == ["float*", "int"]
    assert [p.name for p in parameters_of("", "plain", 2)] == ["", ""]
