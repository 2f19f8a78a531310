"""Tensor maps built on the device have the right bytes, need a fence before use, and work in a wgmma kernel."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import pytest
from bulk_kernels import run
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Emulation, FindingKind, emulate
from measurements.runners.tensor_map_builder import fields_of, headers
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import ELEMENT_BYTES, TensorMap

pytestmark = [needs_compiler, needs_nvrtc]
U8, F16 = SCALAR_DTYPES["u8"], SCALAR_DTYPES["f16"]
OF_BYTES = {1: U8, 2: F16, 4: SCALAR_DTYPES["f32"], 8: SCALAR_DTYPES["f64"]}
HEAD = '#include "autosched/ptx/tensor_map/fields.cuh"\nusing namespace autosched::ptx;\n'

BOTH = """
extern "C" __global__ void both(const __grid_constant__ TensorMap map, const void* x, const TensorMapFields* fields,
                                TensorMap* made, TensorMap* given) {
  TensorMapFields f = *fields;
  f.address = (unsigned long long)x;
  fill_tensor_map(made, f);
  *given = map;
}
"""


def maps() -> list[TensorMap]:
    """Return tensor maps that cover every element type, rank, swizzle and fill."""
    tensor_maps = []
    for k, (element, size) in enumerate(ELEMENT_BYTES.items()):
        rank = 1 + k % 5
        shape = (3, 5, 4, 6, 64)[5 - rank :]
        dense = TensorMap.dense("map", Operand("x", "input", OF_BYTES[size], shape), (1, 2, 2, 3, 16)[5 - rank :])
        steps = tuple(1 + d % 3 for d in range(rank))
        tensor_maps.append(dataclasses.replace(dense, element=element, element_strides=steps))
    plain = TensorMap.dense("map", Operand("x", "input", F16, (40, 64)), (16, 16))
    tensor_maps += [dataclasses.replace(plain, swizzle=s) for s in ("32B", "64B", "128B")]
    return [*tensor_maps, dataclasses.replace(plain, fill="NAN_REQUEST_ZERO_FMA")]


@pytest.mark.parametrize("tensor_map", maps(), ids=lambda m: f"{m.element}-{m.swizzle}-{m.fill}")
def test_maps_built_on_the_device_equal_those_of_the_host(tensor_map: TensorMap) -> None:
    x = tensor_map.operand
    fields = fields_of(tensor_map, 0).view(np.uint8)
    arguments = (
        *(tensor_map, x, Operand("fields", "input", U8, fields.shape)),
        *(Operand("made", "output", U8, (128,)), Operand("given", "output", U8, (128,))),
    )
    kernel = GeneratedKernel(
        entry="both", source=HEAD + BOTH, headers=headers(), arguments=arguments, grid=(1, 1, 1), block=(1, 1, 1)
    )
    inputs = {"x": np.zeros(x.shape, x.dtype.storage), "fields": fields}
    done = emulate(kernel, inputs, time_limit=30)
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["made"], done.outputs["given"])


# The second half of a box is outside the tensor.
FILLED = """
  __shared__ alignas(128) u32 tile[32]; __shared__ u64 barrier;
  const u32 b = AT(barrier), t = threadIdx.x;
  if (t == 0) {
    init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect(b, 128);
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"
                 ::"r"(AT(tile)), "l"(&map), "r"(BEGIN), "r"(b) : "memory");
  }
  __syncthreads();
  wait(b, 0);
  if (t < 32) out[t] = tile[t];
"""


@pytest.mark.parametrize("element", ["FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64"])
@pytest.mark.parametrize(("fill", "outside"), [("NONE", 0), ("NAN_REQUEST_ZERO_FMA", 0x7FF77FF7)])
def test_elements_outside_are_zero_or_one_nan(
    element: str, fill: Literal["NONE", "NAN_REQUEST_ZERO_FMA"], outside: int
) -> None:
    """Each 16-bit half of the NaN is the NaN that fma.oob recognises."""
    size = ELEMENT_BYTES[element]
    count = 128 // size
    x = Operand("x", "input", OF_BYTES[size], (count,))
    values = np.arange(1, count + 1).astype(x.dtype.storage)
    done = run(
        FILLED.replace("BEGIN", str(count // 2)),
        "const __grid_constant__ Map map, u32* out",
        dataclasses.replace(TensorMap.dense("map", x, (count,)), element=element, fill=fill),
        Operand("out", "output", SCALAR_DTYPES["u32"], (32,)),
        inputs={"x": values},
    )
    assert done.ok, done.reason
    expected = np.concatenate([values.view(np.uint32)[16:], np.full(16, outside, np.uint32)])
    np.testing.assert_array_equal(done.outputs["out"].view(np.uint32), expected)


BITS = np.array(
    [0x3F801000, 0x3F803000, 0x3F801001, 0xBF800FFF, 0x7F7FFFFF, 0x7F800001, 0xFF800000, 0x80000123], np.uint32
)
TF32 = np.array(
    [0x3F800000, 0x3F804000, 0x3F802000, 0xBF800000, 0x7F800000, 0x7F800001, 0xFF800000, 0x80000000], np.uint32
)
FLUSHED = np.array([*BITS[:-1], 0x80000000], np.uint32)


@pytest.mark.parametrize(
    ("element", "loaded"),
    [("FLOAT32", BITS), ("FLOAT32_FTZ", FLUSHED), ("TFLOAT32", TF32), ("TFLOAT32_FTZ", TF32)],
)
def test_loads_round_to_the_type_of_the_map(element: str, loaded: Array) -> None:
    """Rounding is to nearest, ties to even. NaN and infinities are kept."""
    x = Operand("x", "input", OF_BYTES[4], (32,))
    done = run(
        FILLED.replace("BEGIN", "0"),
        "const __grid_constant__ Map map, u32* out",
        dataclasses.replace(TensorMap.dense("map", x, (32,)), element=element),
        Operand("out", "output", SCALAR_DTYPES["u32"], (32,)),
        inputs={"x": np.tile(BITS, 4).view(np.float32)},
    )
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["out"].view(np.uint32), np.tile(loaded, 4))


def test_maps_that_only_the_driver_encodes_are_rejected() -> None:
    huge = TensorMap.dense("huge", Operand("x", "input", U8, (2**32,)), (16,))
    packed = TensorMap.interleaved("packed", Operand("x", "input", F16, (2, 2, 64, 8)), (2, 2, 16), "16B")
    for tensor_map in (huge, packed):
        with pytest.raises(ValueError, match=f"{tensor_map.name}: only the driver encodes"):
            fields_of(tensor_map, 0)


# One thread builds the map, and another thread uses it.
USE = """
typedef unsigned short u16;
extern "C" __global__ void use(const u16* x, const TensorMapFields* fields, TensorMap* map, u16* out) {
  __shared__ alignas(128) u16 tile[256]; __shared__ unsigned long long barrier;
  const unsigned b = (unsigned)__cvta_generic_to_shared(&barrier), t = threadIdx.x;
  if (t == 0) {
    TensorMapFields f = *fields;
    f.address = (unsigned long long)x;
    fill_tensor_map(map, f);
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(b) : "memory");
    fence_async_proxy();
  }
  __syncthreads();
  if (t == 32) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(b) : "memory");
    load_box((unsigned)__cvta_generic_to_shared(tile), *map, 8, 1, 0, b, Evict::normally);
  }
  asm volatile("{.reg .pred p;\\nL: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\\n@!p bra L;\\n}"
               ::"r"(b) : "memory");
  for (int i = t; i < 256; i += 64) out[i] = tile[i];
}
"""
USED = TensorMap.dense("map", Operand("x", "input", F16, (2, 40, 64)), (1, 16, 16))
ACQUIRE = 'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");'
RELEASE = 'asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");'


def use(source: str, included: Headers, of: Array | None = None) -> Emulation:
    """Run a kernel that builds a tensor map and uses it. ``of`` has the map's fields (default: those of ``USED``)."""
    x = np.arange(2 * 40 * 64, dtype=np.uint16).reshape(2, 40, 64)
    fields = (fields_of(USED, 0) if of is None else of).view(np.uint8)
    arguments = (
        *(USED.operand, Operand("fields", "input", U8, fields.shape)),
        *(Operand("map", "workspace", U8, (128,)), Operand("out", "output", F16, (256,))),
    )
    kernel = GeneratedKernel(
        entry="use", source=HEAD + source, headers=included, arguments=arguments, grid=(1, 1, 1), block=(64, 1, 1)
    )
    done = emulate(kernel, {"x": x.view(np.float16), "fields": fields}, time_limit=30)
    if done.ok:
        np.testing.assert_array_equal(done.outputs["out"].view(np.uint16).reshape(16, 16), x[0, 1:17, 8:24])
    return done


def test_a_map_built_by_one_thread_is_used_by_another() -> None:
    done = use(USE, headers())
    assert done.ok, done.reason


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        (RELEASE, "", FindingKind.MISSING_PROXY_FENCE, "generic.release (or tensormap.cp_fenceproxy) follows"),
        (ACQUIRE, "", FindingKind.MISSING_PROXY_FENCE, "generic.acquire"),
        (ACQUIRE, ACQUIRE.replace('"(map)', '"(map + 1)'), FindingKind.OUT_OF_BOUNDS_GLOBAL, ""),
        (ACQUIRE, ACQUIRE + "set_box<1>(map, 16);", FindingKind.MISSING_PROXY_FENCE, "generic.acquire"),
        ("__syncthreads();", "", FindingKind.GLOBAL_RACE, ""),
        ("*map = TensorMap{}", "map->opaque[0] = 1", FindingKind.INVALID_ARGUMENT, "not a tensor map"),
    ],
)
def test_faults_in_building_and_acquiring_maps(old: str, new: str, kind: FindingKind, message: str) -> None:
    name = "autosched/ptx/tensor_map/fields.cuh"
    texts = dict(headers().files)
    assert old in USE + texts[name]
    edited = Headers.of({**texts, name: texts[name].replace(old, new)})
    done = use(USE.replace(old, new), edited)
    assert any(f.kind == kind and message in f.message for f in done.findings), done.reason


@pytest.mark.parametrize(
    ("field", "dimension", "value", "message"),
    [
        ("box", 1, 257, "box_dim 1 is 257"),
        ("box", 2, 0, "box_dim 2 is 0"),
        ("box", 0, 12, "box_dim 0 is 24 bytes, not a multiple of 16"),
        ("element_strides", 1, 9, "element_stride 1 is 9"),
        ("strides", 0, 24, "global_stride 0 is 24 bytes"),
        ("strides", 1, 2**40, "global_stride 1 is"),
        ("sizes", 2, 0, "global_dim 2 (of 3 dimensions) was never set, or is 0"),
        ("rank", None, 1, "1 dimensions"),
        ("rank", None, 0, "rank is 255"),
        ("element", None, 9, "box_dim 0 is 128 bytes, more than the 64 bytes"),
    ],
)
def test_fields_that_no_tensor_has(field: str, dimension: int | None, value: int, message: str) -> None:
    fields = fields_of(USED, 0)
    fields["swizzle"] = 2
    if dimension is None:
        fields[field] = value
    else:
        fields[field][0, dimension] = value
    done = use(USE, headers(), fields)
    assert any(f.kind == FindingKind.INVALID_ARGUMENT and message in f.message for f in done.findings), done.reason
