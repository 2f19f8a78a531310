"""Problems of calls on arrays, derived only from shapes, strides and types. All functions are pure.

A plan is made once for each set of shapes, strides and types, and kept with its kernel.
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

# autosched's types by their names in numpy and torch.
TYPES = {"float16": "f16", "float32": "f32", "uint32": "u32", "int8": "i8", "int32": "i32"} | {
    theirs: ours for ours, theirs in NAMES.items()
}


@dataclass(frozen=True)
class ArraySpec:
    """Shape and layout of an array.

    ``strides`` are in elements, ``type`` is its name in numpy and torch, and ``itemsize`` is in bytes.
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

        With ``order`` "col" the last two axes are exchanged.
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
    """Problem and result of a call.

    ``operands`` names the problem's operands in the order of the array arguments. ``out_shape`` and ``out_type``
    describe the result; the type is a key of TYPES, or None for the element type of x.
    """

    problem: Problem
    operands: tuple[str, ...]
    out_shape: tuple[int, ...]
    out_type: str | None


@dataclass(frozen=True)
class MatmulOptions:
    """Options of a matmul apart from its arrays, as in ``autosched.matmul``.

    Attributes:
        activation: Function applied to the result, or "none".
        precision: Precision of f32 products: "tf32" or "ieee".
        acc: "f16" accumulates in f16; "" is the default accumulator.
        dtype: Type of the result. None: type of ``out``, else of ``a``.
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
        b: (k, n), or with the leading axes of ``a``.
        bias: (n,), or None.
        scale_a: Scales of ``a`` as in ``autosched.matmul``: one element, one per row, or one per row and 128 of k.
        scale_b: Scales of the columns of ``b``. Give both scales or neither.
        block_scale_a: Scales of blocks along k, for ``block_format``.
        block_scale_b: The same for ``b``.
        out: Array for the result; None for a new one.
        options: Activation, precision, types and layout of scales.

    Returns:
        The problem, the operands in the order of the arrays, and shape and type of the result.

    Raises:
        ValueError: No kernel supports these shapes, types or strides.
    """
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError(f"matmul takes matrices, not {_shapes(a, b)}: use matvec for vectors")
    *lead, m, k = a.shape
    *lead_b, k_b, n = b.shape
    if k != k_b or (lead_b and lead_b != lead):
        raise ValueError(
            f"a and b do not fit together: {_shapes(a, b)}; give a (..., m, k) and b (k, n) or (..., k, n)"
        )
    batch = math.prod(lead) if lead_b else 1
    if lead and not lead_b:  # one b for all matrices of a: treat their rows as one matrix
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
    """Return the operand names of the block scales.

    Raises:
        ValueError: They are missing, superfluous or do not fit.
    """
    by_name = {"block_scale_a": a, "block_scale_b": b}
    if problem.blocks is None:
        if a is not None or b is not None:
            raise ValueError(f"block_scale_a and block_scale_b need block_format: one of {', '.join(BLOCK_FORMATS)}")
        return []
    shapes = {operand.name: operand.shape for operand in problem.operands()}
    for name, scales in by_name.items():
        if scales is None:
            raise ValueError(f"{problem.a} needs {name}: bytes of the shape {shapes[name]}")
        if scales.itemsize != 1 or math.prod(scales.shape) != math.prod(shapes[name]):
            raise ValueError(
                f"{name} must be {math.prod(shapes[name])} bytes, {problem.scale_order}: {shapes[name]}, "
                f"not {scales.shape} of {scales.type}"
            )
        _dense(name, scales)
    return list(by_name)


def _scale(a: ArraySpec | None, b: ArraySpec | None, sizes: tuple[list[int], int, int, int]) -> str:
    """Return the kind of scale for matrices with these leading axes, m, n and k."""
    if a is None and b is None:
        return "none"
    if a is None or b is None:
        raise ValueError("give both scale_a and scale_b, or neither: replace a missing one by a single 1")
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
        f"scales of {_shapes(a, b)} do not fit: give one element each, or one for each of {m} rows of a and each of "
        f"{n} columns of b, or ({m}, {deep}) and ({across}, {deep}) for blocks of {SCALE_BLOCK}"
    )


def matvec_plan(x: ArraySpec, w: ArraySpec, *, out: ArraySpec | None, dtype: str | None) -> CallPlan:
    """Return the plan of ``x @ w.T``.

    Args:
        x: (k,) or (m, k) with m up to 16, dense.
        w: (n, k), dense, of x's type.
        out: Array for the result, (n,) or (m, n); None for a new one.
        dtype: Type of the result. None: type of ``out``, else of ``x``.

    Returns:
        The plan. The result has x's leading axes and n.

    Raises:
        ValueError: No kernel supports these shapes, types or strides.
    """
    if x.ndim not in (1, 2) or w.ndim != 2 or x.shape[-1] != w.shape[1]:
        raise ValueError(f"matvec takes x (k,) or (m, k) and w (n, k), not {_shapes(x, w)}")
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
    """Return the plan of a reduction along the last axis, or along the first.

    Args:
        x: At least one axis, dense.
        out: Array for the result, without the axis; None for a new one.
        kind: "sum", "max", "mean", "sumsq" or "argmax".
        axis: -1 or the number of the last axis, or 0.
        dtype: Type of the result. None: u32 for argmax, else the type of ``out`` or of ``x``.

    Returns:
        The plan.

    Raises:
        ValueError: No kernel supports this axis, shape or type.
    """
    if axis not in (-1, 0, x.ndim - 1):
        raise ValueError(f"reduce works along the first axis or the last, not along axis {axis} of {x.shape}")
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
    """Return the plan that exchanges the last two axes, for elements of 1 to 16 bytes of any type."""
    if x.ndim < 2:
        raise ValueError(f"transpose takes matrices, not {_shapes(x)}")
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
        options: Keywords of ``problem.of_arrays``.

    Returns:
        The problem of the call.

    Raises:
        ValueError: Arrays are not dense, or do not fit together.
    """
    for name, array in arrays.items():
        _dense(name, array)
    types = {name: TYPES.get(array.type, {"uint8": "u8"}.get(array.type, array.type)) for name, array in arrays.items()}
    full_problem = problem.of_arrays({name: array.shape for name, array in arrays.items()}, types, **options)
    inputs = {o.name: o for o in full_problem.operands() if o.role != "output"}
    for name, array in arrays.items():
        if name not in inputs:
            raise ValueError(f"{problem.operator} does not accept {name} here: give {', '.join(inputs)}")
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
    """Return the number of rows (the product of all axes but the last), the number of columns, and the type."""
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
    """Return the result type: that of ``out``, the requested one, or ``usual``.

    Raises:
        ValueError: The first two differ.
    """
    if dtype is not None and dtype not in TYPES.values():
        dtype = TYPES.get(dtype, dtype)
    type_name = None if out is None else TYPES.get(out.type, out.type)
    if type_name is not None and dtype is not None and type_name != dtype:
        raise ValueError(f"out has type {type_name}, but dtype is {dtype}: leave one out")
    return type_name or dtype or usual


def _shapes(*arrays: ArraySpec) -> str:
    return " and ".join(str(array.shape) for array in arrays)
