"""The problem that is derived from a call on arrays. As a check, numpy computes the problem on the plan's operands."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.dispatch.call_signature import (
    ArraySpec,
    CallPlan,
    MatmulOptions,
    layernorm_plan,
    matmul_plan,
    matvec_plan,
    reduce_plan,
    rmsnorm_plan,
    softmax_plan,
    transpose_plan,
)
from search_spaces.launches.operand import Operand
from search_spaces.operators.matmul import Matmul

OPTIONS = [field.name for field in dataclasses.fields(MatmulOptions)]


def planned(*arrays: ArraySpec, **keywords: Any) -> CallPlan:
    """Return the plan of a matmul with the options of ``autosched.matmul``."""
    options = MatmulOptions(**{name: keywords.pop(name) for name in OPTIONS if name in keywords})
    return matmul_plan(*arrays, **keywords, options=options)


def facts(array: np.ndarray) -> ArraySpec:
    size = array.dtype.itemsize
    return ArraySpec(array.shape, tuple(s // size for s in array.strides), array.dtype.name, size)


def of(shape: tuple[int, ...], kind: str = "float16") -> ArraySpec:
    return facts(np.zeros(shape, kind))


def computed(plan: CallPlan, *arrays: np.ndarray) -> np.ndarray:
    """Compute the reference of the plan's problem on these arrays, and return the output in the result's shape."""
    operands = {o.name: o for o in plan.problem.operands()}
    inputs = {name: in_memory(operands[name], array) for name, array in zip(plan.operands, arrays, strict=True)}
    return plan.problem.reference(inputs)["out"].reshape(plan.out_shape)


def in_memory(operand: Operand, array: np.ndarray) -> np.ndarray:
    """Interpret the memory at the address of ``array`` as a kernel does, in the operand's shape."""
    flat = np.lib.stride_tricks.as_strided(array, (array.size,), (array.dtype.itemsize,))
    return flat.view(operand.dtype.storage).reshape(operand.shape)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def numbers(*shape: int, kind: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


ORDERS: tuple[Callable[..., np.ndarray], ...] = (
    lambda *shape: numbers(*shape),
    lambda *shape: numbers(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2),
)


class TestMatmul:
    @pytest.mark.parametrize(("order_a", "order_b"), list(itertools.product(ORDERS, ORDERS)))
    @pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
    def test_any_order_and_leading_axes(self, order_a: Any, order_b: Any, lead: tuple[int, ...]) -> None:
        a, b = order_a(*lead, 4, 6), order_b(*lead, 6, 5)
        close(computed(planned(facts(a), facts(b)), a, b), a.astype(float) @ b)

    @pytest.mark.parametrize("order_b", ORDERS)
    def test_a_shared_b_is_planned_as_one_product(self, order_b: Any) -> None:
        a, b = numbers(2, 3, 4, 6), order_b(6, 5)
        plan = planned(facts(a), facts(b))
        assert isinstance(plan.problem, Matmul) and (plan.problem.m, plan.problem.batch) == (24, 1)
        close(computed(plan, a, b), a.astype(float) @ b)

    def test_bias_and_activation(self) -> None:
        a, b, bias = numbers(4, 6), numbers(6, 5), numbers(5)
        plan = planned(facts(a), facts(b), facts(bias), activation="relu")
        close(computed(plan, a, b, bias), np.maximum(a.astype(float) @ b + bias, 0))
        plan = planned(facts(a), facts(b), activation="relu")
        close(computed(plan, a, b), np.maximum(a.astype(float) @ b, 0))

    @pytest.mark.parametrize("lead", [(), (2,)])
    @pytest.mark.parametrize("keep", [False, True])
    def test_scales_of_lines(self, lead: tuple[int, ...], keep: bool) -> None:
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-9, 9, (*lead, *shape), dtype=np.int8) for shape in ((4, 6), (6, 5)))
        of_rows = rng.random((*lead, 4, 1) if keep else (*lead, 4), dtype=np.float32)
        of_columns = rng.random((*lead, 1, 5) if keep else (*lead, 5), dtype=np.float32)
        scales = {"scale_a": facts(of_rows), "scale_b": facts(of_columns)}
        plan = planned(facts(a), facts(b), **scales, dtype="f32")
        assert plan.operands == ("a", "b", "scale_a", "scale_b") and plan.out_type == "f32"
        wide = of_rows.reshape(*lead, 4, 1) * (a.astype(float) @ b) * of_columns.reshape(*lead, 1, 5)
        close(computed(plan, a, b, of_rows, of_columns), wide)

    def test_scales_of_matrices_are_planned_or_rejected(self) -> None:
        a, b, scalar = of((4, 32), "int8"), of((32, 5), "int8"), of((), "float32")
        plan = planned(a, b, scale_a=scalar, scale_b=of((1,), "float32"))
        assert isinstance(plan.problem, Matmul) and (plan.problem.scale, plan.out_type) == ("tensor", "bf16")
        for scales, message in (
            ({"scale_a": scalar}, "only one of scale_a and scale_b"),
            ({"scale_a": scalar, "scale_b": of((5,), "float16")}, "scale_b must be of type float32, not float16"),
            ({"scale_a": of((4,), "float32"), "scale_b": scalar}, "for each of 4 rows of a and each of 5 columns of b"),
            (
                {"scale_a": of((1, 4), "float32"), "scale_b": of((1, 1), "float32")},
                r"or \(4, 1\) and \(1, 1\) for blocks",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                planned(a, b, **scales)

    def test_scales_of_blocks(self) -> None:
        a, b = of((2, 4, 300), "uint8"), of((2, 300, 130), "uint8")
        a, b = dataclasses.replace(a, type="float8_e4m3fn"), dataclasses.replace(b, type="float8_e4m3fn")
        scales = {"scale_a": of((2, 4, 3), "float32"), "scale_b": of((2, 2, 3), "float32")}
        plan = planned(a, b, **scales)
        assert isinstance(plan.problem, Matmul) and (plan.problem.scale, plan.out_type) == ("block", "bf16")
        assert {o.name: o.shape for o in plan.problem.operands()}["scale_b"] == (2, 2, 3)

    @pytest.mark.parametrize("order", ["row", "tiled"])
    @pytest.mark.parametrize("name", ["mxf8", "mxf4", "nvf4"])
    @pytest.mark.parametrize("lead", [(), (2,)])
    def test_block_scaled_types(self, name: str, order: str, lead: tuple[int, ...]) -> None:
        problem = Matmul(20, 24, 96, batch=2 if lead else 1, a=name, scale_order=order)
        inputs = problem.random_inputs(1)
        a, b, scale_a, scale_b = (inputs[o] if lead else inputs[o][0] for o in list(inputs)[:4])
        b = b.swapaxes(-1, -2)
        scales = {"block_scale_a": facts(scale_a), "block_scale_b": facts(scale_b)}
        plan = planned(facts(a), facts(b), block_format=name, scale_order=order, **scales)
        assert plan.problem == problem
        assert plan.operands == ("a", "b", "block_scale_a", "block_scale_b")
        close(computed(plan, a, b, scale_a, scale_b), problem.reference(inputs)["out"].reshape(*lead, 20, 24))

    def test_block_scales_that_do_not_fit(self) -> None:
        a, b, scales = of((20, 48), "uint8"), facts(np.zeros((24, 48), "uint8").T), of((20, 6), "uint8")
        scale_b = of((24, 6), "uint8")
        scaled: dict[str, Any] = {"block_scale_a": scales, "block_scale_b": scale_b, "block_format": "nvf4"}
        assert planned(a, b, **scaled).problem == planned(a, b, **{**scaled, "block_format": "nvfp4"}).problem
        for changed, message in (
            ({"block_scale_b": None}, r"block_scale_b .* nvf4 .* \(1, 24, 6\)"),
            ({"block_scale_b": scales}, r"144 .* \(1, 24, 6\).* not \(20, 6\) of uint8"),
            ({"block_format": "nvf5"}, "unknown block_format 'nvf5': use one of mxf8, mxf4, nvf4"),
            ({"block_format": ""}, "a has type uint8, which no kernel supports"),
        ):
            with pytest.raises(ValueError, match=message):
                planned(a, b, **scaled | changed)
        with pytest.raises(
            ValueError, match="a of nvf4 must be of type uint8 or float4_e2m1fn_x2, not float16: view it as"
        ):
            planned(of((20, 48)), b, **scaled)
        halves = {name: array for name, array in scaled.items() if name != "block_format"}
        with pytest.raises(ValueError, match="block_scale_a and block_scale_b need block_format"):
            planned(of((20, 48)), of((48, 24)), **halves)

    def test_the_type_of_the_result(self) -> None:
        a, b = of((4, 6)), of((6, 5))
        plans = {
            kind: planned(a, b, out=out, dtype=dtype)
            for kind, out, dtype in (
                ("f16", None, None),
                ("f32", None, "f32"),
                ("bf16", None, "bfloat16"),
                ("f32", of((4, 5), "float32"), None),
            )
        }
        assert all(plan.out_type == plan.problem.out == kind for kind, plan in plans.items())

    @pytest.mark.parametrize(
        ("a", "b", "message"),
        [
            (of((4,)), of((4, 5)), r"matmul .* not \(4,\) and \(4, 5\): use matvec"),
            (of((4, 6)), of((5, 6)), r"do not fit together: \(4, 6\) and \(5, 6\)"),
            (of((2, 4, 6)), of((3, 6, 5)), "do not fit together"),
            (facts(np.zeros((4, 12), "f2")[:, ::2]), of((6, 5)), r"a must be dense, .*strides \(12, 2\): copy it"),
            (facts(np.zeros((2, 6, 4), "f2").swapaxes(1, 2)), of((6, 5)), "dense and row-major"),
            (
                of((4, 6), "uint16"),
                of((6, 5)),
                "a has type uint16, .*: use one of float16, float32, int8, bfloat16, float8_e4",
            ),
            (of((4, 6)), of((6, 5), "float32"), "a and b must have the same type, not f16 and f32"),
            (of((4, 6), "float64"), of((6, 5), "float64"), "a has type float64"),
        ],
    )
    def test_arrays_of_wrong_shapes_or_types_are_rejected(self, a: ArraySpec, b: ArraySpec, message: str) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            planned(a, b)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"out": of((5, 4))}, r"out must have the shape \(4, 5\), not \(5, 4\)"),
            ({"out": facts(np.zeros((5, 4), "f2").T)}, "out must be dense and C-contiguous"),
            ({"out": of((4, 5), "float32"), "dtype": "f16"}, "out has type f32, but dtype is f16"),
            ({"out": of((4, 5), "int8")}, "unknown type .i8.: use one of f16, bf16, f32, i32"),
            ({"dtype": "f64"}, "f64"),
            ({"activation": "tanh"}, "unknown activation 'tanh': use one of none, relu, gelu, silu"),
        ],
    )
    def test_unsupported_arguments_are_rejected(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            planned(of((4, 6)), of((6, 5)), **changes)

    def test_a_bias_of_another_type(self) -> None:
        with pytest.raises(ValueError, match=r"bias must have the shape \(5,\) and type f16, not \(5,\) of float32"):
            planned(of((4, 6)), of((6, 5)), of((5,), "float32"))


def test_matvec() -> None:
    w = numbers(5, 6, kind="float16")
    for x in (numbers(6, kind="float16"), numbers(3, 6, kind="float16")):
        close(computed(matvec_plan(facts(x), facts(w), out=None, dtype="f32"), x, w), x.astype(float) @ w.T)
    with pytest.raises(ValueError, match="matvec needs"):
        matvec_plan(of((6,)), of((6, 5)), out=None, dtype=None)
    with pytest.raises(ValueError, match="m must be at most 16, not 17: use matmul"):
        matvec_plan(of((17, 6)), of((5, 6)), out=None, dtype=None)
    with pytest.raises(ValueError, match="same type"):
        matvec_plan(of((6,)), of((5, 6), "float32"), out=None, dtype=None)


def test_rows_of_any_number_of_axes() -> None:
    x, weight, bias = numbers(2, 3, 8), numbers(8), numbers(8)
    wide = x.astype(float)
    e = np.exp(wide)
    close(computed(softmax_plan(facts(x), out=None, dtype=None), x), e / e.sum(-1, keepdims=True))
    plan = rmsnorm_plan(facts(x), facts(weight), out=None, eps=0.5, dtype=None)
    close(computed(plan, x, weight), wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 0.5) * weight)
    plan = layernorm_plan(facts(x), facts(weight), facts(bias), out=None, eps=0.5, dtype=None)
    spread = np.sqrt(wide.var(-1, keepdims=True) + 0.5)
    close(computed(plan, x, weight, bias), (wide - wide.mean(-1, keepdims=True)) / spread * weight + bias)
    with pytest.raises(ValueError, match=r"weight must have the shape \(8,\)"):
        rmsnorm_plan(facts(x), of((7,), "float32"), out=None, eps=0.5, dtype=None)
    with pytest.raises(ValueError, match="x must be dense and C-contiguous"):
        softmax_plan(facts(x.swapaxes(0, 1)), out=None, dtype=None)


def test_reduce_along_the_last_axis_and_the_first() -> None:
    x = numbers(4, 3, 8)
    wide = x.astype(float)
    for axis in (-1, 0, 2):
        options = {"out": None, "axis": axis, "dtype": None}
        close(computed(reduce_plan(facts(x), kind="sum", **options), x), wide.sum(axis))
        plan = reduce_plan(facts(x), kind="argmax", **options)
        assert plan.out_type == "u32"
        close(computed(plan, x), wide.argmax(axis))
    close(computed(reduce_plan(facts(x[0, 0]), kind="max", out=None, axis=0, dtype=None), x[0, 0]), wide[0, 0].max())
    with pytest.raises(ValueError, match=r"axis 1 of \(4, 3, 8\)"):
        reduce_plan(facts(x), kind="sum", out=None, axis=1, dtype=None)


@pytest.mark.parametrize("kind", ["u1", "f2", "f4", "f8", "c16"])
def test_transpose_of_any_element(kind: str) -> None:
    x = (100 * numbers(2, 3, 5)).astype("f4").astype(kind)
    plan = transpose_plan(facts(x), out=None)
    (operand,) = (o for o in plan.problem.operands() if o.name == "x")
    moved = plan.problem.reference({"x": in_memory(operand, x)})["out"]
    actual = np.ascontiguousarray(moved.astype(operand.dtype.storage)).reshape(-1).view(kind).reshape(plan.out_shape)
    assert (actual == x.swapaxes(1, 2)).all()
    with pytest.raises(ValueError, match="out must be of type"):
        transpose_plan(facts(x), out=of((2, 5, 3), "i8"))


def test_the_type_of_the_sums() -> None:
    a, b = of((4, 16)), of((16, 8))
    assert planned(a, b).problem == Matmul(4, 8, 16)
    assert planned(a, b, acc="f16").problem == Matmul(4, 8, 16, acc="f16")
    with pytest.raises(ValueError, match="acc must be f32 for f32, not 'f16': only f16 products"):
        planned(of((4, 16), "float32"), of((16, 8), "float32"), acc="f16")
