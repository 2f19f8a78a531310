"""Derivation of a call's problem from the shapes, strides and types of its arrays. All functions are pure.

Callers compute a plan once for each combination of shapes, strides and types, and store it with the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.hardware.block_scaling import BLOCK_FORMATS, BlockFormat
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import FLOAT_DTYPES, MULTIPLIED_DTYPES, NAMES, DType
from search_spaces.operators.matmul import ACTIVATIONS, SCALE_BLOCK, Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.tile_operators.tile_problem import TileOperator

# maps names of types in numpy and torch to autosched's types
TYPES = {"float16": "f16", "float32": "f32", "uint32": "u32", "int8": "i8", "int32": "i32"} | {
    theirs: ours for ours, theirs in NAMES.items()
}


@dataclass(frozen=True)
class ArraySpec:
    """Shape and layout of an array.

    ``strides`` are in elements, ``type`` is the element type's name in numpy and torch, and ``itemsize`` is in bytes.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    type: str
    itemsize: int

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def is_dense(self, shape: Sequence[int], order: str = "row") -> bool:
        """Return True for the strides of a dense array of ``shape``.

        With ``order`` "col", the last two axes must be column-major.
        """
        dense_strides, step = {}, 1
        axes = list(range(len(shape)))[::-1]
        if order == "col":
            axes[0], axes[1] = axes[1], axes[0]
        for axis in axes:
            dense_strides[axis] = step
            step *= shape[axis]
        return all(shape[i] == 1 or self.strides[i] == dense_strides[i] for i in dense_strides)


@dataclass(frozen=True)
class CallPlan:
    """Problem that a call computes, and shape and type of its result.

    ``operands`` names the problem's operands in the order of the array arguments. ``out_shape`` and ``out_type``
    describe the result. ``out_type`` is a key of TYPES, or None for the type of the first array.
    """

    problem: Problem
    operands: tuple[str, ...]
    out_shape: tuple[int, ...]
    out_type: str | None


@dataclass(frozen=True)
class MatmulOptions:
    """Options of ``autosched.matmul``, except the arrays.

    Attributes:
        activation: Function applied to the result, or "none".
        precision: Precision of f32 products: "tf32" or "ieee".
        acc: "f16" accumulates in f16; "" is the default accumulator.
        dtype: Type of the result. None: the type of ``out``, or without ``out`` the default of ``Matmul``.
        block_format: "mxf8", "mxf4" or "nvf4"; "" for plain types.
        scale_order: Layout of block scales: "row" or "tiled".
    """

    activation: str = "none"
    precision: str = "tf32"
    acc: str = ""
    dtype: str | None = None
    block_format: str = ""
    scale_order: str = "row"


USUAL = MatmulOptions()


def matmul_plan(
    a: ArraySpec,
    b: ArraySpec,
    bias: ArraySpec | None = None,
    *,
    scale_a: ArraySpec | None = None,
    scale_b: ArraySpec | None = None,
    block_scale_a: ArraySpec | None = None,
    block_scale_b: ArraySpec | None = None,
    out: ArraySpec | None = None,
    options: MatmulOptions = USUAL,
) -> CallPlan:
    """Return the plan of ``activation(scales * (a @ b) + bias)``.

    Args:
        a: (..., m, k); the last two axes may be column-major.
        b: (k, n), or (..., k, n) with the leading axes of ``a``.
        bias: (n,), or None.
        scale_a: Scales of ``a`` as in ``autosched.matmul``: a single scale, one per row, or one per 128 elements along
            k of each row.
        scale_b: Scales of the columns of ``b``. Give both scales or neither.
        block_scale_a: Scales of blocks along k. Only with ``block_format``.
        block_scale_b: Scales of blocks of ``b``, like ``block_scale_a``.
        out: Array for the result; None for a new one.
        options: Activation, precision, types and layout of block scales.

    Returns:
        The plan: the problem, the names of operands in the order of the arrays, and shape and type of the result.

    Raises:
        ValueError: No kernel supports these shapes, types or strides.
    """
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError(f"matmul needs arrays of at least two axes, not {_shapes(a, b)}: use matvec for vectors")
    *lead, m, k = a.shape
    *lead_b, k_b, n = b.shape
    if k != k_b or (lead_b and lead_b != lead):
        raise ValueError(
            f"shapes of a and b do not fit together: {_shapes(a, b)}; use (..., m, k) for a, and (k, n) or (..., "
            "k, n) for b"
        )
    batch = math.prod(lead) if lead_b else 1
    if lead and not lead_b:  # all matrices of a are multiplied by the same b, so treat them as one tall matrix
        if not a.is_dense(a.shape):
            raise ValueError("a must be dense and row-major if b is one matrix: copy it")
        m, order_a = math.prod(lead) * m, "row"
    else:
        order_a = _order("a", a)
    activation = options.activation
    if activation not in ("none", *ACTIVATIONS):
        raise ValueError(f"unknown activation {activation!r}: use one of none, {', '.join(ACTIVATIONS)}")
    parts = [*(["bias"] if bias is not None else []), *([activation] if activation != "none" else [])]
    problem = Matmul(
        m=m,
        n=n,
        k=k * (_block_format(options.block_format).element.values if options.block_format else 1),
        batch=batch,
        a=_factor_type("a", a, options.block_format),
        b=_factor_type("b", b, options.block_format),
        acc=options.acc,
        out=_out_type(out, options.dtype, ""),
        order_a=order_a,
        order_b=_order("b", b),
        epilogue="+".join(parts) or "none",
        precision=options.precision if a.type == "float32" else "tf32",
        scale=_scale(scale_a, scale_b, (lead if lead_b else [], m, n, k)),
        scale_order=options.scale_order if options.block_format else "",
    )
    shape = (*a.shape[:-1], n)
    operands = ["a", "b", *(("scale_a", "scale_b") if scale_a is not None else ())]
    operands += _block_scales(problem, block_scale_a, block_scale_b)
    if bias is not None:
        _vector("bias", bias, n, problem.out)
        operands.append("bias")
    return _plan(problem, operands, shape, problem.out, out)


def _block_format(name: str) -> BlockFormat:
    own = canonical(name)
    if own not in BLOCK_FORMATS:
        raise ValueError(f"unknown block_format {name!r}: use one of {', '.join(BLOCK_FORMATS)}")
    return BLOCK_FORMATS[own]


def _factor_type(name: str, array: ArraySpec, block_format: str) -> str:
    if not block_format:
        return _type(name, array, MULTIPLIED_DTYPES)
    element = _block_format(block_format).element.name
    known = ("uint8", {"e4m3": NAMES["e4m3"], "e2m1x2": "float4_e2m1fn_x2"}[element])
    if array.type not in known:
        raise ValueError(
            f"{name} of {block_format} must be of type {' or '.join(known)}, not {array.type}: view it as uint8"
        )
    return block_format


def _block_scales(problem: Matmul, a: ArraySpec | None, b: ArraySpec | None) -> list[str]:
    """Check the block scales, and return the names of their operands.

    Raises:
        ValueError: Block scales are missing or superfluous, or have the wrong size.
    """
    by_name = {"block_scale_a": a, "block_scale_b": b}
    if problem.blocks is None:
        if a is not None or b is not None:
            raise ValueError(
                f"block_scale_a and block_scale_b need block_format: use one of {', '.join(BLOCK_FORMATS)}"
            )
        return []
    shapes = {operand.name: operand.shape for operand in problem.operands()}
    for name, scales in by_name.items():
        if scales is None:
            raise ValueError(f"{name} is missing: {problem.a} needs it, as bytes of the shape {shapes[name]}")
        if scales.itemsize != 1 or math.prod(scales.shape) != math.prod(shapes[name]):
            raise ValueError(
                f"{name} must have {math.prod(shapes[name])} one-byte elements (order {problem.scale_order}: "
                f"{shapes[name]}), not {scales.shape} of {scales.type}"
            )
        _dense(name, scales)
    return list(by_name)


def _scale(a: ArraySpec | None, b: ArraySpec | None, sizes: tuple[list[int], int, int, int]) -> str:
    """Return the granularity of scales: "none", "tensor", "row_column" or "block". ``sizes``: leading axes, m, n, k."""
    if a is None and b is None:
        return "none"
    if a is None or b is None:
        raise ValueError("only one of scale_a and scale_b is given: give both or neither (a scale of 1 has no effect)")
    for name, scale in (("scale_a", a), ("scale_b", b)):
        if scale.type != "float32":
            raise ValueError(f"{name} must be of type float32, not {scale.type}: convert it")
        _dense(name, scale)
    lead, m, n, k = sizes
    deep, across = -(-k // SCALE_BLOCK), -(-n // SCALE_BLOCK)
    counts, of_all = (math.prod(a.shape), math.prod(b.shape)), math.prod(lead)
    if counts == (1, 1):
        return "tensor"
    if counts == (of_all * m, of_all * n):
        return "row_column"
    if counts == (of_all * m * deep, of_all * across * deep) and (a.shape[-1], b.shape[-2:]) == (deep, (across, deep)):
        return "block"
    raise ValueError(
        f"shapes of scale_a and scale_b do not fit: {_shapes(a, b)}; use one element each, or one for each of {m} "
        f"rows of a and each of {n} columns of b, or ({m}, {deep}) and ({across}, {deep}) for blocks of "
        f"{SCALE_BLOCK}"
    )


def matvec_plan(x: ArraySpec, w: ArraySpec, *, out: ArraySpec | None, dtype: str | None) -> CallPlan:
    """Return the plan of ``x @ w.T``.

    Args:
        x: (k,) or (m, k) with m up to 16, dense.
        w: (n, k), dense, of x's type.
        out: Array for the result, (n,) or (m, n); None for a new one.
        dtype: Type of the result. None: type of ``out``, else of ``x``.

    Returns:
        The plan. The result has the shape (n,) or (m, n).

    Raises:
        ValueError: No kernel supports these shapes, types or strides.
    """
    if x.ndim not in (1, 2) or w.ndim != 2 or x.shape[-1] != w.shape[1]:
        raise ValueError(f"matvec needs x of shape (k,) or (m, k) and w of shape (n, k), not {_shapes(x, w)}")
    _dense("x", x)
    _dense("w", w)
    if x.type != w.type:
        raise ValueError(f"x and w must have the same type, not {x.type} and {w.type}")
    m = x.shape[0] if x.ndim == 2 else 1
    kind = _type("x", x)
    problem = Matvec(m=m, n=w.shape[0], k=x.shape[-1], x=kind, out=_out_type(out, dtype, kind))
    return _plan(problem, ["x", "w"], (*x.shape[:-1], w.shape[0]), problem.out, out)


def softmax_plan(x: ArraySpec, *, out: ArraySpec | None, dtype: str | None) -> CallPlan:
    """Return the plan of a softmax along the last axis."""
    rows, columns, kind = _rows("softmax", x)
    problem = Softmax(rows=rows, columns=columns, dtype=kind, out=_out_type(out, dtype, kind))
    return _plan(problem, ["x"], x.shape, problem.out, out)


def rmsnorm_plan(x: ArraySpec, weight: ArraySpec, *, out: ArraySpec | None, eps: float, dtype: str | None) -> CallPlan:
    """Return the plan of an RMS norm along the last axis.

    Args:
        x: (..., columns), dense.
        weight: (columns,), of x's type.
        out: Array for the result, of x's shape; None for a new one.
        eps: Added to the mean of the squares.
        dtype: Type of the result. None: type of ``out``, else of ``x``.

    Returns:
        The plan.

    Raises:
        ValueError: No kernel supports these shapes, types or strides.
    """
    rows, columns, kind = _rows("rmsnorm", x)
    _vector("weight", weight, columns, kind)
    problem = RmsNorm(rows=rows, columns=columns, dtype=kind, out=_out_type(out, dtype, kind), eps=eps)
    return _plan(problem, ["x", "weight"], x.shape, problem.out, out)


def layernorm_plan(
    x: ArraySpec, weight: ArraySpec, bias: ArraySpec, *, out: ArraySpec | None, eps: float, dtype: str | None
) -> CallPlan:
    """Return the plan of a layer norm along the last axis.

    Args:
        x: (..., columns), dense.
        weight: (columns,), of x's type.
        bias: (columns,), of x's type.
        out: Array for the result, of x's shape; None for a new one.
        eps: Added to the variance.
        dtype: Type of the result. None: type of ``out``, else of ``x``.

    Returns:
        The plan.

    Raises:
        ValueError: No kernel supports these shapes, types or strides.
    """
    rows, columns, kind = _rows("layernorm", x)
    _vector("weight", weight, columns, kind)
    _vector("bias", bias, columns, kind)
    problem = LayerNorm(rows=rows, columns=columns, dtype=kind, out=_out_type(out, dtype, kind), eps=eps)
    return _plan(problem, ["x", "weight", "bias"], x.shape, problem.out, out)


def reduce_plan(x: ArraySpec, *, out: ArraySpec | None, kind: str, axis: int, dtype: str | None) -> CallPlan:
    """Return the plan of a reduction along the first or last axis.

    Args:
        x: At least one axis, dense.
        out: Array for the result, of x's shape without the reduced axis; None for a new one.
        kind: "sum", "max", "mean", "sumsq" or "argmax".
        axis: The reduced axis: 0, -1, or the index of the last axis.
        dtype: Type of the result. None: u32 for argmax; for other kinds the type of ``out``, or without ``out`` the
            type of ``x``.

    Returns:
        The plan.

    Raises:
        ValueError: No kernel supports this axis, shape or type.
    """
    if axis not in (-1, 0, x.ndim - 1):
        raise ValueError(f"reduce cannot reduce axis {axis} of {x.shape}: use the first or the last axis")
    first = axis == 0 and x.ndim > 1
    rows, columns, of = _rows("reduce", x)
    if first:
        rows, columns = x.shape[0], math.prod(x.shape[1:])
    usual = "u32" if kind == "argmax" else of
    problem = Reduce(
        rows=rows,
        columns=columns,
        dtype=of,
        out=_out_type(out, dtype, usual),
        kind=kind,
        axis="column" if first else "row",
    )
    return _plan(problem, ["x"], x.shape[1:] if first else x.shape[:-1], problem.out, out)


def transpose_plan(x: ArraySpec, *, out: ArraySpec | None) -> CallPlan:
    """Return the plan of a transpose of the last two axes. Elements may have any type of 1 to 16 bytes."""
    if x.ndim < 2:
        raise ValueError(f"transpose needs an array of at least two axes, not {_shapes(x)}")
    _dense("x", x)
    *lead, rows, columns = x.shape
    size = 8 * x.itemsize
    problem = Transpose(rows=rows, columns=columns, batch=math.prod(lead), dtype=f"u{size}")
    if out is not None and out.type != x.type:
        raise ValueError(f"out must be of type {x.type} like x, not {out.type}")
    return _plan(problem, ["x"], (*lead, columns, rows), None, out)


def tile_problem(
    problem: type[TileOperator], arrays: Mapping[str, ArraySpec], options: Mapping[str, Any]
) -> TileOperator:
    """Return the problem of a call of an operator defined by a tile program.

    Args:
        problem: Problem type.
        arrays: Input arrays by name.
        options: Keyword arguments for ``problem.of_arrays``.

    Returns:
        The problem of the call.

    Raises:
        ValueError: Arrays are not dense, or have inconsistent shapes or types.
    """
    for name, array in arrays.items():
        _dense(name, array)
    types = {name: TYPES.get(array.type, {"uint8": "u8"}.get(array.type, array.type)) for name, array in arrays.items()}
    full_problem = problem.of_arrays({name: array.shape for name, array in arrays.items()}, types, **options)
    inputs = {o.name: o for o in full_problem.operands() if o.role != "output"}
    for name, array in arrays.items():
        if name not in inputs:
            raise ValueError(
                f"{problem.operator} with these options does not accept {name}: use only {', '.join(inputs)}"
            )
        if array.shape != inputs[name].shape or types[name] != inputs[name].dtype.name:
            raise ValueError(
                f"{name} must have the shape {inputs[name].shape} and type {inputs[name].dtype.name}, not "
                f"{array.shape} of {types[name]}"
            )
    missing = [name for name in inputs if name not in arrays]
    if missing:
        raise ValueError(f"{problem.operator} needs {', '.join(missing)} here")
    return full_problem


def _plan(
    problem: Problem, operands: Sequence[str], shape: tuple[int, ...], kind: str | None, out: ArraySpec | None
) -> CallPlan:
    if out is not None:
        if out.shape != shape:
            raise ValueError(f"out must have the shape {shape}, not {out.shape}")
        _dense("out", out)
    return CallPlan(problem, tuple(operands), shape, kind)


def _order(name: str, matrix: ArraySpec) -> str:
    for order in ("row", "col"):
        if matrix.is_dense(matrix.shape, order):
            return order
    raise ValueError(f"{name} must be dense, row-major or column-major, but has strides {matrix.strides}: copy it")


def _dense(name: str, array: ArraySpec) -> None:
    if not array.is_dense(array.shape):
        raise ValueError(f"{name} must be dense and C-contiguous, but has strides {array.strides}: copy it")


def _rows(operator: str, x: ArraySpec) -> tuple[int, int, str]:
    """Return the number of rows (the product of all axes except the last), the number of columns, and the type."""
    if x.ndim < 1:
        raise ValueError(f"{operator} needs an array with at least one axis")
    _dense("x", x)
    return math.prod(x.shape[:-1]), x.shape[-1], _type("x", x)


def _vector(name: str, array: ArraySpec, length: int, kind: str) -> None:
    if array.shape != (length,) or TYPES.get(array.type) != kind:
        raise ValueError(f"{name} must have the shape ({length},) and type {kind}, not {array.shape} of {array.type}")
    _dense(name, array)


def _type(name: str, array: ArraySpec, of: Mapping[str, DType] = FLOAT_DTYPES) -> str:
    kind = TYPES.get(array.type, "")
    if kind not in of:
        known = ", ".join(library_name for library_name, dtype in TYPES.items() if dtype in of)
        raise ValueError(f"{name} has type {array.type}, which no kernel supports: use one of {known}")
    return kind


def _out_type(out: ArraySpec | None, dtype: str | None, usual: str) -> str:
    """Return the type of the result: ``out``'s type, the requested type, or the default ``usual``.

    Raises:
        ValueError: ``out`` has another type than the requested one.
    """
    if dtype is not None and dtype not in TYPES.values():
        dtype = TYPES.get(dtype, dtype)
    type_name = None if out is None else TYPES.get(out.type, out.type)
    if type_name is not None and dtype is not None and type_name != dtype:
        raise ValueError(f"out has type {type_name}, but dtype is {dtype}: omit out or dtype")
    return type_name or dtype or usual


def _shapes(*arrays: ArraySpec) -> str:
    return " and ".join(str(array.shape) for array in arrays)
