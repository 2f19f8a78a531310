"""Block-scaled factors have the right values and products, and their scales have the right positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scaled_products import random_elements, random_scales, scales, values

from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.block_scaling import BLOCK_FORMATS
from search_spaces.hardware.dtypes import E2M1X2, UE4M3, UE8M0
from search_spaces.operators.block_scales import SCALE_ORDERS, in_lines, in_order, scale_positions, scales_shape
from search_spaces.operators.matmul import Matmul

FORMATS = {"mxf8": ("e4m3", 32, "ue8m0"), "mxf4": ("e2m1", 32, "ue8m0"), "nvf4": ("e2m1", 16, "ue4m3")}
extents = st.integers(1, 300)


def test_a_byte_stores_two_e2m1_lower_half_first() -> None:
    codes = np.arange(256).astype(np.uint8)
    numbers = E2M1X2.load(codes[:, None])
    np.testing.assert_array_equal(numbers[0x72], [1.0, 6.0])
    np.testing.assert_array_equal(numbers[0x1F], [-6.0, 0.5])
    np.testing.assert_array_equal(E2M1X2.store(numbers)[:, 0], codes)


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=2))
def test_the_nearest_e2m1_is_stored(pair: list[float]) -> None:
    every = np.unique(E2M1X2.load(np.arange(256).astype(np.uint8)))
    stored = E2M1X2.load(E2M1X2.store(np.array(pair)))
    for x, actual in zip(pair, stored, strict=True):
        assert abs(actual - x) == np.abs(every - x).min()


def test_ties_go_to_even_codes() -> None:
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0])
    np.testing.assert_array_equal(E2M1X2.load(E2M1X2.store(ties)), [0, 1, 1, 2, 2, 4, 4, -4])


def test_scales_are_powers_of_two_or_positive_e4m3() -> None:
    codes = np.arange(256).astype(np.uint8)
    powers = UE8M0.load(codes)
    assert powers[127] == 1 and powers[0] == 2.0**-127 and powers[254] == 2.0**127 and np.isnan(powers[255])
    np.testing.assert_array_equal(UE8M0.store(powers), codes)
    assert UE8M0.store(np.array([3.0, 0.0])).tolist() == [129, 0]
    fractions = UE4M3.load(codes[:128])
    assert fractions[0x38] == 1 and fractions[0x7E] == 448 and np.isnan(fractions[0x7F])
    np.testing.assert_array_equal(UE4M3.store(fractions[:127]), codes[:127])


@pytest.mark.parametrize("order", SCALE_ORDERS)
@given(batch=st.integers(1, 2), lines=extents, blocks=st.integers(1, 20))
def test_every_scale_has_its_own_position(order: str, batch: int, lines: int, blocks: int) -> None:
    numbers = np.arange(batch * lines * blocks).reshape(batch, lines, blocks)
    stored = in_order(order, numbers, -1)
    assert stored.shape == scales_shape(order, batch, lines, blocks)
    np.testing.assert_array_equal(in_lines(order, stored, lines, blocks), numbers)
    assert (stored >= 0).sum() == numbers.size
    positions = scale_positions(order, np.arange(lines), np.arange(blocks), lines, blocks)
    assert np.unique(positions).size == lines * blocks


def test_tiles_of_scales_agree_with_cublas() -> None:
    """In cuBLAS's tiled order, scales of line 32 are 4 bytes after line 0, and line 33 is 16 bytes after line 32."""
    at = scale_positions("tiled", np.array([0, 1, 32, 33, 128]), np.array([0, 3, 4]), 256, 8)
    np.testing.assert_array_equal(at[:, 0], [0, 16, 4, 20, 1024])
    np.testing.assert_array_equal(at[0], [0, 3, 512])


@pytest.mark.parametrize("order", SCALE_ORDERS)
@pytest.mark.parametrize("name", FORMATS)
def test_the_reference_is_the_product_of_scaled_numbers(name: str, order: str) -> None:
    kind, block, scaled_by = FORMATS[name]
    assert BLOCK_FORMATS[name].block == block and BLOCK_FORMATS[name].scale.name == scaled_by
    rng, m, n, k = np.random.default_rng(4), 37, 150, 160
    problem = Matmul(m, n, k, a=name, scale_order=order, out="f32")
    a, b = (random_elements(rng, kind, lines, k) for lines in (m, n))
    sa, sb = (random_scales(rng, scaled_by, lines, k // block) for lines in (m, n))
    inputs = {
        "a": a[None], "b": b[None],
        "block_scale_a": in_order(order, sa[None], 0), "block_scale_b": in_order(order, sb[None], 0),
    }  # fmt: skip
    assert {o.name: o.shape for o in problem.operands() if o.role == "input"} == {
        name: x.shape for name, x in inputs.items()
    }
    left, right = (values(kind, x) * np.repeat(scales(scaled_by, s), block, axis=1) for x, s in ((a, sa), (b, sb)))
    np.testing.assert_allclose(problem.reference(inputs)["out"][0], left @ right.T, rtol=1e-12)


@pytest.mark.parametrize("order", SCALE_ORDERS)
@pytest.mark.parametrize("name", FORMATS)
def test_parts_agree_with_the_whole(name: str, order: str) -> None:
    problem = Matmul(150, 40, 96, batch=2, a=name, scale_order=order)
    inputs = problem.random_inputs(3)
    full_output = problem.reference(inputs)["out"].ravel()
    seen = 0
    for part in problem.parts(np.arange(0, full_output.size, 13)):
        part_inputs = {name: inputs[name].ravel()[indices] for name, indices in part.inputs.items()}
        actual = part.problem.reference(part_inputs)["out"]
        np.testing.assert_allclose(actual, full_output[part.outputs["out"]])
        seen += actual.size
    assert seen >= full_output.size // 13


def test_defaults_are_set_and_invalid_fields_rejected() -> None:
    problem = Matmul(64, 64, 64, a="nvf4")
    assert (problem.out, problem.order_b, problem.scale_order, problem.depth) == ("bf16", "col", "row", 32)
    assert problem_from_json(problem.to_json()) == problem
    assert "scale_order" not in Matmul(64, 64, 64).to_json()
    for fields, message in (
        ({"a": "mxf8", "k": 48}, "k must be a multiple of 32, a block of mxf8, not 48"),
        ({"a": "mxf4", "order_a": "col"}, "mxf4 must be contiguous along k: order_a must be row and order_b col"),
        ({"a": "nvf4", "scale_order": "columns"}, "scale_order must be row or tiled, not 'columns'"),
        ({"a": "e4m3", "scale_order": "row"}, "scale_order needs a block-scaled type"),
        ({"a": "mxf8", "scale": "block"}, "type mxf8 for scale=block"),
        ({"a": "mxf8", "acc": "f16"}, "acc must be f32 for mxf8"),
    ):
        with pytest.raises(ValueError, match=message):
            Matmul(**{"m": 64, "n": 64, "k": 64} | fields)
