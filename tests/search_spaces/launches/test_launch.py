"""Kernels and launches reject invalid values, can be stored as JSON, and have digests that depend on every field."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.hardware.dtypes import BF16, F16, F32, SCALAR_DTYPES, U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.launches.launch import Launch, ScalarArgument, launch_from_json
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import ELEMENT_BYTES, BoundingBox, TensorMap

A = Operand("a", "input", F16, (128, 256))
OUT = Operand("out", "output", F32, (64,))
MAP = TensorMap.dense("a_map", A, (64, 64), swizzle="128B")
ARGUMENTS = (MAP, OUT, ScalarArgument("n", SCALAR_DTYPES["i32"], -3), ScalarArgument("scale", F32, 0.1))
KERNEL = GeneratedKernel(
    entry="f", source="// f", arguments=ARGUMENTS, grid=(4, 2, 1), block=(32, 2, 1), cluster=(2, 1, 1)
)


def test_a_launch_is_the_same_after_json():
    launch = Launch(**{f.name: getattr(KERNEL, f.name) for f in dataclasses.fields(Launch)})
    assert launch_from_json(json.loads(json.dumps(KERNEL.launch_json()))) == launch


def test_a_map_of_pixels_is_the_same_after_json():
    image = TensorMap.dense("pixels", Operand("image", "input", F16, (2, 8, 8, 16)), (1, 1, 1, 16))
    pixels = dataclasses.replace(image, box=(16, 300, 1, 1), im2col=BoundingBox((-1, -2), (0, 1)))
    launch = Launch(entry="f", arguments=(pixels,), grid=(1, 1, 1), block=(32, 1, 1))
    assert launch_from_json(json.loads(json.dumps(launch.launch_json()))) == launch


SHRINKING = dataclasses.replace(KERNEL, grid=(12, 1, 1), cluster=(4, 1, 1), grid_may_shrink=True)


@pytest.mark.parametrize("clusters", range(1, 9))
def test_a_grid_shrinks_to_whole_clusters_that_run_at_a_time(clusters):
    grid = SHRINKING.grid_of(clusters)
    assert grid == (4 * min(clusters, 3), 1, 1)
    dataclasses.replace(SHRINKING, grid=grid)  # raises if the launch is invalid
    assert KERNEL.grid_of(clusters) == KERNEL.grid


def test_a_grid_of_no_cluster_is_rejected():
    with pytest.raises(ValueError, match="at least one cluster, not 0"):
        SHRINKING.grid_of(0)


def test_only_shrinking_grids_are_serialised_as_such():
    assert launch_from_json(json.loads(json.dumps(SHRINKING.launch_json()))).grid_may_shrink
    fixed = dataclasses.replace(SHRINKING, grid_may_shrink=False)
    assert "grid_may_shrink" not in fixed.launch_json()
    assert fixed.digest != SHRINKING.digest


def test_the_arrays_of_a_launch_are_listed_once():
    both = dataclasses.replace(KERNEL, arguments=(*ARGUMENTS, A))
    assert KERNEL.operands == both.operands == (A, OUT)
    other = dataclasses.replace(A, shape=(2, 2))
    with pytest.raises(ValueError, match="two different arrays are called a"):
        dataclasses.replace(KERNEL, arguments=(*ARGUMENTS, other))
    twice = dataclasses.replace(KERNEL, arguments=(OUT, A, OUT))
    assert twice.operands == (OUT, A) and len(twice.launch_json()["arguments"]) == 3
    with pytest.raises(ValueError, match="must be distinct"):
        dataclasses.replace(KERNEL, arguments=(*ARGUMENTS, ScalarArgument("n", SCALAR_DTYPES["i32"], 4)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"grid": (0, 1, 1)}, "grid must be three numbers"),
        ({"block": (32, 1)}, "block must be three numbers"),
        ({"grid": (3, 1, 1)}, "must be a multiple of the cluster"),
        ({"grid": (32, 1, 1), "cluster": (32, 1, 1)}, "at most 16 blocks, not 32"),
        ({"dynamic_shared_bytes": -1}, "must be at least 0"),
        ({"launches": 0}, "launches"),
        ({"grid_may_shrink": True}, "grid_may_shrink needs a grid of one dimension"),
        ({"grid": (4, 1, 1), "cluster": (1, 1, 2), "grid_may_shrink": True}, "must be a multiple of the cluster"),
        ({"entry": "two words"}, "C identifier"),
        ({"entry": 'f<"text">'}, "C identifier"),
        ({"entry": "f; g"}, "C identifier"),
        ({"compile_options": ("-I/usr/include",)}, "pass the text of headers"),
        ({"compile_options": ("--include-path=/usr/include",)}, "pass the text of headers"),
        ({"compile_options": ("X=1",)}, "not allowed in compile options"),
    ],
)
def test_invalid_launches_are_rejected(change, reason):
    with pytest.raises(ValueError, match=reason):
        dataclasses.replace(KERNEL, **change)


@pytest.mark.parametrize(
    ("entry", "name"), [("f", "f"), ("ns::f<float, 4>", "f"), ("f<ns::Tile<2 * (3 + 1)>, float*>", "f")]
)
def test_an_entry_may_be_a_name_expression(entry, name):
    assert dataclasses.replace(KERNEL, entry=entry).name == name


def test_the_digest_covers_all_fields():
    changes = [
        {},
        {"entry": "g"},
        {"source": "// g"},
        {"headers": Headers.of({"a.cuh": "// 1"})},
        {"headers": Headers.of({"a.cuh": "// 2"})},
        {"headers": Headers.of({"b.cuh": "// 1"})},
        {"compile_options": ("-DN=1",)},
        {"grid": (8, 2, 1)},
        {"block": (64, 1, 1)},
        {"cluster": (1, 1, 1)},
        {"dynamic_shared_bytes": 4},
        {"launches": 2},
        {"arguments": ARGUMENTS[:-1]},
        {"arguments": (*ARGUMENTS[:-1], ScalarArgument("scale", F32, 0.2))},
        {"arguments": (dataclasses.replace(MAP, swizzle="NONE"), *ARGUMENTS[1:])},
    ]
    assert len({dataclasses.replace(KERNEL, **change).digest for change in changes}) == len(changes)


@given(st.sampled_from(["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]), st.integers(-(2**65), 2**65))
def test_an_integer_is_stored_exactly_or_rejected(name, value):
    dtype = SCALAR_DTYPES[name]
    storage = np.dtype(dtype.storage)
    fits = storage.kind in "iu" and np.iinfo(storage).min <= value <= np.iinfo(storage).max
    if fits:
        stored = ScalarArgument("n", dtype, value).stored
        assert (stored.dtype, stored.shape, int(stored[0])) == (storage, (1,), value)
    else:
        with pytest.raises(ValueError, match=f"scalar n must be a {name}"):
            ScalarArgument("n", dtype, value)


def test_scalars_have_the_bits_of_their_c_type():
    assert ScalarArgument("x", F32, 1).stored.tobytes() == np.float32(1).tobytes()
    assert ScalarArgument("x", F16, -math.inf).stored.tobytes() == np.float16(-np.inf).tobytes()
    assert ScalarArgument("x", BF16, 1.0).stored.tobytes() == b"\x80\x3f"
    assert ScalarArgument("x", SCALAR_DTYPES["f64"], 0.1).stored.tobytes() == np.float64(0.1).tobytes()
    assert ScalarArgument("x", SCALAR_DTYPES["bool"], True).stored.tobytes() == b"\x01"
    for dtype, value in ((U32, 1.0), (U32, True), (SCALAR_DTYPES["bool"], 1), (F32, "1")):
        with pytest.raises(ValueError, match="scalar x must be"):
            ScalarArgument("x", dtype, value)


def test_a_dense_map_has_the_innermost_dimension_first():
    batched = TensorMap.dense("m", Operand("x", "input", BF16, (3, 128, 64)), (1, 128, 64), swizzle="128B")
    assert (batched.element, batched.sizes, batched.box) == ("BFLOAT16", (64, 128, 3), (64, 128, 1))
    assert batched.strides == (128, 128 * 128)
    assert ELEMENT_BYTES[batched.element] == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"element": "FLOAT"}, "element must be one of"),
        ({"swizzle": "256B"}, "swizzle must be one of"),
        ({"sizes": ()}, "0 sizes need"),
        ({"strides": (512, 512)}, "2 sizes need 1 strides"),
        ({"sizes": (0, 128)}, "sizes must be 1 to"),
        ({"strides": (504,)}, "multiples of 16 bytes"),
        ({"strides": (2**40,)}, "below 2\\^40"),
        ({"box": (64, 257), "swizzle": "NONE"}, "box sizes must be 1 to 256"),
        ({"box": (4, 64)}, "a multiple of 16 bytes, not 8"),
        ({"box": (128, 64)}, "at most 128 bytes, not 256"),
        ({"box": (64, 64), "swizzle": "64B"}, "at most 64 bytes, not 128"),
        ({"box": (256, 256), "swizzle": "NONE", "element": "FLOAT32"}, "sizes of"),
        ({"element_strides": (1, 9)}, "element strides must be 1 to 8"),
        ({"interleave": "16B"}, "3 to 5 dimensions"),
        ({"fill": "NAN_REQUEST_ZERO_FMA", "element": "UINT16"}, "floating-point"),
        ({"sizes": (256, 129)}, "reaches to byte 66048 of a, which has 65536"),
    ],
)
def test_a_map_that_the_driver_would_reject_is_rejected(change, reason):
    with pytest.raises(ValueError, match=f"tensor map a_map: .*{reason}"):
        dataclasses.replace(MAP, **change)


def test_tensor_maps_of_unsupported_types_are_rejected():
    with pytest.raises(ValueError, match="bool is not supported"):
        TensorMap.dense("m", Operand("x", "input", SCALAR_DTYPES["bool"], (64,)), (64,))
