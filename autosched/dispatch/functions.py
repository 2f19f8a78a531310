"""Tuned operators as functions of arrays: ``autosched.matmul(a, b)`` and the like, for cupy, torch and DLPack.

Each call looks up the kernel of its shapes, strides and types in a table of this process; the first one asks the
database: the ``database`` argument, else the one of ``use``, else that of AUTOSCHED_DB, which is read once, else the
one that ``tune`` keeps where none is named. Without any, the recordings that come with autosched serve the problems
recorded on this GPU and their neighbours. What runs is what ``Database.kernel`` gives, with its warnings; ``chosen``
shows it. Everything is queued on the current stream of cupy, or of torch where the first array is a tensor, and nothing
waits. Any number of threads may call.

All raise ValueError, in one line, for arrays that are not on one GPU, or do not fit together, or are not dense (a
matrix of ``matmul`` may also be column-major, such as ``b.T``), and for an ``out`` that overlaps an input; and
RuntimeUnavailable and NoSchedule as ``Database.kernel`` does.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosched.dispatch import call_log, call_signature
from autosched.dispatch.call_signature import ArraySpec, CallPlan
from autosched.dispatch.database import Database
from autosched.dispatch.given_arrays import ALIGNMENT, as_gpu_array, check_apart, look_at, torch_of
from autosched.dispatch.kernel import LoadedKernel, cupy_module
from autosched.dispatch.provenance import KernelProvenance
from measurements.files.data_folder import VARIABLE, default_database
from search_spaces.hardware.dtypes import NAMES
from search_spaces.operators.problem import Problem
from search_spaces.tile_operators.tile_problem import TileProblem

Source = Database | str | Path


def matmul(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    scale_a: Any = None,
    scale_b: Any = None,
    block_scale_a: Any = None,
    block_scale_b: Any = None,
    block_format: str = "",
    scale_order: str = "row",
    bias: Any = None,
    activation: str = "none",
    precision: str = "tf32",
    acc: str = "",
    dtype: str | None = None,
    database: Source | None = None,
) -> Any:
    """Compute ``activation(a @ b + bias)`` by the best kernel that the database knows.

    Args:
        a: (..., m, k); with ``block_format`` bytes, (..., m, k) of the numbers of mxf8 and (..., m, k / 2) of others.
        b: (k, n), or (..., k, n) with the same leading axes; with ``block_format`` bytes, (k, n) or (k / 2, n),
            column-major.
        out: The array of the result, by default a new one.
        scale_a: Of 8-bit types, f32, where ``scale_b`` is given, too: one element, or one for each row of a, (..., m)
            or (..., m, 1), which multiply the product; or, of 8-bit floats, one for each row of a and 128 of k,
            (..., m, k / 128), rounded up, which multiply the sums of 128 products.
        scale_b: One element, or one for each column of b, (..., n) or (..., 1, n); or one for each 128 columns of b and
            128 of k, (..., n / 128, k / 128), rounded up.
        block_scale_a: Bytes, which lie as ``scale_order`` says.
        block_scale_b: The same for b.
        block_format: "mxf8", "mxf4" or "nvf4".
        scale_order: "row" or "tiled" (``Matmul``).
        bias: n elements of the result's type.
        activation: "none", "relu", "gelu" or "silu".
        precision: Whether f32 may be rounded to "tf32" or not ("ieee").
        acc: "f16" adds up products of f16 in f16.
        dtype: Of the result, by default that of ``out`` or of a (8-bit floats give bf16, int8 int32, with scales bf16).
        database: Where kernels are looked up, by default that of ``autosched.use``, else AUTOSCHED_DB.
    """
    options = ("matmul", activation, precision, acc, dtype, block_format, scale_order)
    if scale_a is scale_b is block_scale_a is block_scale_b is bias is None:
        return _call((a, b), out, database, options, _matmul_plan)
    more = {
        "scale_a": scale_a,
        "scale_b": scale_b,
        "block_scale_a": block_scale_a,
        "block_scale_b": block_scale_b,
        "bias": bias,
    }
    more = {name: array for name, array in more.items() if array is not None}
    return _call((a, b, *more.values()), out, database, (*options, *more), _matmul_plan)


def matvec(x: Any, w: Any, out: Any = None, *, dtype: str | None = None, database: Source | None = None) -> Any:
    """Compute ``x @ w.T`` for few rows of x.

    Args:
        x: (k,) or (m, k), m up to 16.
        w: (n, k).
        out: The array of the result, (n,) or (m, n), by default a new one.
        dtype: Of the result, by default that of ``out`` or of x.
        database: Where kernels are looked up, by default that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array, of the library of x.

    Raises:
        ValueError: For arrays that do not fit together, or lie on several GPUs.
        NoSchedule: Where no kernel can compute this.
    """
    return _call(
        (x, w), out, database, ("matvec", dtype), lambda f, of, o: call_signature.matvec_plan(*f, out=of, dtype=o[1])
    )


def softmax(x: Any, out: Any = None, *, dtype: str | None = None, database: Source | None = None) -> Any:
    """Compute the softmax of x along its last axis.

    Args:
        x: (..., columns).
        out: The array of the result, of x's shape, by default a new one.
        dtype: Of the result, by default that of ``out`` or of x.
        database: Where kernels are looked up, by default that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array, of the library of x.

    Raises:
        ValueError: For arrays that do not fit together, or lie on several GPUs.
        NoSchedule: Where no kernel can compute this.
    """
    return _call(
        (x,), out, database, ("softmax", dtype), lambda f, of, o: call_signature.softmax_plan(*f, out=of, dtype=o[1])
    )


def rmsnorm(
    x: Any, weight: Any, out: Any = None, *, eps: float = 1e-5, dtype: str | None = None, database: Source | None = None
) -> Any:
    """Compute ``x / sqrt(mean(x^2) + eps) * weight`` along the last axis.

    Args:
        x: (..., columns).
        weight: (columns,), of x's type.
        out: The array of the result, of x's shape, by default a new one.
        eps: Added to the mean of the squares.
        dtype: Of the result, by default that of ``out`` or of x.
        database: Where kernels are looked up, by default that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array, of the library of x.

    Raises:
        ValueError: For arrays that do not fit together, or lie on several GPUs.
        NoSchedule: Where no kernel can compute this.
    """
    return _call(
        (x, weight),
        out,
        database,
        ("rmsnorm", eps, dtype),
        lambda f, of, o: call_signature.rmsnorm_plan(*f, out=of, eps=o[1], dtype=o[2]),
    )


def layernorm(
    x: Any,
    weight: Any,
    bias: Any,
    out: Any = None,
    *,
    eps: float = 1e-5,
    dtype: str | None = None,
    database: Source | None = None,
) -> Any:
    """Compute ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis.

    Args:
        x: (..., columns).
        weight: (columns,), of x's type.
        bias: (columns,), of x's type.
        out: The array of the result, of x's shape, by default a new one.
        eps: Added to the variance.
        dtype: Of the result, by default that of ``out`` or of x.
        database: Where kernels are looked up, by default that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array, of the library of x.

    Raises:
        ValueError: For arrays that do not fit together, or lie on several GPUs.
        NoSchedule: Where no kernel can compute this.
    """
    return _call(
        (x, weight, bias),
        out,
        database,
        ("layernorm", eps, dtype),
        lambda f, of, o: call_signature.layernorm_plan(*f, out=of, eps=o[1], dtype=o[2]),
    )


def reduce(
    x: Any,
    out: Any = None,
    *,
    kind: str = "sum",
    axis: int = -1,
    dtype: str | None = None,
    database: Source | None = None,
) -> Any:
    """Reduce x along its last axis, or its first.

    Args:
        x: At least one axis.
        out: The array of the result, without the axis, by default a new one.
        kind: "sum", "max", "mean", "sumsq" or "argmax", whose result is u32.
        axis: -1, the last, or 0, the first.
        dtype: Of the result, by default that of ``out`` or of x.
        database: Where kernels are looked up, by default that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array, of the library of x.

    Raises:
        ValueError: For arrays that do not fit together, or lie on several GPUs.
        NoSchedule: Where no kernel can compute this.
    """
    return _call(
        (x,),
        out,
        database,
        ("reduce", kind, axis, dtype),
        lambda f, of, o: call_signature.reduce_plan(*f, out=of, kind=o[1], axis=o[2], dtype=o[3]),
    )


def transpose(x: Any, out: Any = None, *, database: Source | None = None) -> Any:
    """Return x with its last two axes exchanged, as a dense array of its own; elements of any type of 1 to 16 bytes."""
    return _call((x,), out, database, ("transpose",), lambda f, of, _: call_signature.transpose_plan(*f, out=of))


def use(database: Source | None) -> None:
    """Set the database of calls without one, in this process, instead of that of AUTOSCHED_DB; None takes it back.

    Raises StoreError, a ValueError, where it cannot be opened.
    """
    _default.set(None if database is None else _opened(database))


def chosen() -> tuple[KernelProvenance, ...]:
    """Where each kernel that these functions have loaded so far comes from, in the order of their first calls."""
    kernels = [*(loaded.kernel for loaded in list(_loaded.values())), *list(_tile_kernels.values())]
    return tuple(kernel.provenance for kernel in kernels)


def forget() -> None:
    """Drop every kernel that these functions have loaded: after a database has been tuned further, for one."""
    with _lock:
        _loaded.clear()
        _tile_kernels.clear()
        _databases.clear()


@dataclass(frozen=True)
class _LoadedCall:
    """A kernel and its problem; names and sizes in bytes of the arrays of a call, out last, and their positions in the
    order of the kernel where that is another; shape and type of a new result, and its GPU; torch if the first array is
    its."""

    kernel: LoadedKernel
    problem: Problem
    names: tuple[str, ...]
    bytes: tuple[int, ...]
    order: tuple[int, ...] | None
    shape: tuple[int, ...]
    dtype: Any
    gpu: int
    torch: Any

    @classmethod
    def of(cls, kernel: LoadedKernel, plan: CallPlan, first: Any, gpu: int) -> _LoadedCall:
        sizes = {o.name: o.bytes for o in plan.problem.operands()}
        names = (*plan.operands, "out")
        order = tuple(names.index(o.name) for o in (*kernel.inputs, *kernel.outputs))
        return cls(
            kernel,
            plan.problem,
            names,
            tuple(sizes[name] for name in names),
            None if order == tuple(range(len(names))) else order,
            plan.out_shape,
            _result_type(first, plan.out_type),
            gpu,
            torch_of(first),
        )


class _Default:
    """The database of calls that name none."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._asked = False

    def set(self, database: Database | None) -> None:
        self._database, self._asked = database, False

    def get(self) -> Database:
        if self._database is None and not self._asked:
            path = default_database()
            known = bool(os.environ.get(VARIABLE)) or os.path.exists(path)
            self._database, self._asked = _opened(path) if known else None, True
        if self._database is None:
            self._asked = False
            return _NO_DATABASE
        return self._database


_lock = threading.RLock()  # held while a kernel is loaded
_default = _Default()
_NO_DATABASE = Database(None)
_databases: dict[str, Database] = {}
_loaded: dict[tuple[Any, ...], _LoadedCall] = {}
_tile_kernels: dict[tuple[Any, ...], LoadedKernel] = {}


def _opened(source: Source) -> Database:
    if isinstance(source, Database):
        return source
    with _lock:
        text = str(source)
        if text not in _databases:
            _databases[text] = Database(source)
        return _databases[text]


Make = Callable[[Sequence[ArraySpec], ArraySpec | None, tuple[Any, ...]], CallPlan]  # of inputs, out and options


def _matmul_plan(facts: Sequence[ArraySpec], out: ArraySpec | None, options: tuple[Any, ...]) -> CallPlan:
    asked, names = call_signature.MatmulOptions(*options[1:7]), options[7:]
    more = dict(zip(names, facts[2:], strict=True))
    return call_signature.matmul_plan(facts[0], facts[1], **more, out=out, options=asked)


def _call(arrays: tuple[Any, ...], out: Any, source: Source | None, options: tuple[Any, ...], plan: Make) -> Any:
    cp = cupy_module()
    given: Sequence[Any] = arrays if out is None else (*arrays, out)
    seen = look_at(cp.ndarray, given)
    if seen is None:
        given = _on_gpu(cp, given, len(arrays))
        seen = look_at(cp.ndarray, given)
        assert seen is not None
    looks, starts, bits = seen
    database = _default.get() if source is None else _opened(source)
    key = (database, options, out is None, looks)
    loaded = _loaded.get(key)
    if loaded is None:
        loaded = _load(cp, database, key, plan, _on_gpu(cp, given, len(arrays)), len(arrays))
    if call_log.active():
        call_log.add(loaded.problem)
    torch = loaded.torch
    if out is None:
        if torch is None:
            result = _new(cp, loaded)
            start = result.data.ptr
        else:
            result = given[0].new_empty(loaded.shape, dtype=loaded.dtype)
            start = result.data_ptr()
        starts.append(start)
        bits |= start
    else:
        result = out
        check_apart(loaded.names, starts, loaded.bytes, len(arrays))
    if bits % ALIGNMENT:
        name = next(name for name, at in zip(loaded.names, starts, strict=True) if at % ALIGNMENT)
        raise ValueError(f"{name} must start at a multiple of {ALIGNMENT} bytes, which a view may not do: copy it")
    loaded.kernel.launch_at(starts if loaded.order is None else [starts[i] for i in loaded.order], torch)
    return result


def call_tile_operator(
    problem: type[TileProblem],
    arrays: Mapping[str, Any],
    out: Any,
    source: Source | None,
    options: Mapping[str, Any],
) -> Any:
    """Launch an operator whose problem states its tile program.

    Args:
        problem: Its problem type.
        arrays: The inputs by name; None for an optional one that is not given.
        out: The array of the result, or a tuple of several; None for new ones.
        source: The database; None for the default one.
        options: Keywords of ``problem.of_arrays``.

    Returns:
        ``out``, or what was made.

    Raises:
        ValueError: Arrays that do not fit together.
        NoSchedule: No kernel can compute this.
    """
    cp = cupy_module()
    given = {name: array for name, array in arrays.items() if array is not None}
    seen = look_at(cp.ndarray, list(given.values()))
    if seen is None:
        given = {name: as_gpu_array(cp, name, array) for name, array in given.items()}
        seen = look_at(cp.ndarray, list(given.values()))
        assert seen is not None
    database, looks = _default.get() if source is None else _opened(source), seen[0]
    key = (database, problem, tuple(options.items()), tuple(given), looks)
    kernel = _tile_kernels.get(key)
    if kernel is None:
        for name, array in given.items():
            given[name] = as_gpu_array(cp, name, array)
        for here in looks[3::4]:
            if here != looks[3]:
                raise ValueError(f"the arrays are on GPUs {looks[3]} and {here}: move them to one")
        made = call_signature.tile_problem(problem, {n: _facts(a) for n, a in given.items()}, options)
        with _lock, cp.cuda.Device(looks[3]):
            kernel = _tile_kernels[key] = database.kernel(made)
        if call_log.active():
            call_log.add(made)
    elif call_log.active():
        call_log.add(call_signature.tile_problem(problem, {n: _facts(a) for n, a in given.items()}, options))
    return kernel(*(given[o.name] for o in kernel.inputs), out=out)


def _on_gpu(cp: Any, arrays: Sequence[Any], inputs: int) -> list[Any]:
    return [as_gpu_array(cp, f"argument {i + 1}" if i < inputs else "out", array) for i, array in enumerate(arrays)]


def _load(
    cp: Any, database: Database, key: tuple[Any, ...], plan: Make, arrays: Sequence[Any], inputs: int
) -> _LoadedCall:
    """Return the kernel of a call, found once for each key."""
    _, options, _, looks = key
    gpu = looks[3]
    for here in looks[3::4]:
        if here != gpu:
            raise ValueError(f"the arrays are on GPUs {gpu} and {here}: move them to one")
    with _lock:
        if key not in _loaded:
            facts = [_facts(array) for array in arrays]
            made = plan(facts[:inputs], facts[inputs] if len(facts) > inputs else None, options)
            with cp.cuda.Device(gpu):
                kernel = database.kernel(made.problem)
            _loaded[key] = _LoadedCall.of(kernel, made, arrays[0], gpu)
        return _loaded[key]


def _facts(array: Any) -> ArraySpec:
    if hasattr(array, "stride"):  # a tensor
        kind, size = str(array.dtype).removeprefix("torch."), int(array.element_size())
        return ArraySpec(tuple(array.shape), tuple(array.stride()), kind, size)
    size = array.dtype.itemsize
    return ArraySpec(array.shape, tuple(stride // size for stride in array.strides), array.dtype.name, size)


def _result_type(first: Any, out_type: str | None) -> Any:
    """Return what the library of the first array calls the type of a result."""
    torch = torch_of(first)
    if torch is not None:
        return first.dtype if out_type is None else getattr(torch, _NAMES[out_type])
    if out_type is None or call_signature.TYPES.get(first.dtype.name) == out_type:
        return first.dtype
    name = _NAMES[out_type]
    return getattr(importlib.import_module("ml_dtypes"), name) if out_type in NAMES else np.dtype(name)


def _new(cp: Any, loaded: _LoadedCall) -> Any:
    """Return a result of cupy's on the GPU of the arrays."""
    if cp.cuda.runtime.getDevice() == loaded.gpu:
        return cp.empty(loaded.shape, loaded.dtype)
    with cp.cuda.Device(loaded.gpu):
        return cp.empty(loaded.shape, loaded.dtype)


_NAMES = {ours: name for name, ours in call_signature.TYPES.items()}
call_log.start_from_environment()
