"""Tuned operators as functions of arrays, such as ``autosched.matmul(a, b)``, for cupy, torch and DLPack.

A table of this process maps shapes, strides and types to loaded kernels. The first call with a new combination queries
a database. This is the argument ``database``, or else the database set by ``use``, or else the database that
AUTOSCHED_DB names (read once), or else the default database of ``tune``, if it exists. Without a database, calls use
the recordings that are part of autosched, for problems recorded on this GPU and their neighbours. ``Database.kernel``
selects kernels, and may warn; ``chosen`` lists the selected kernels.

Kernels are queued on cupy's current stream, or on torch's if the first array is a tensor. No call waits for its kernel.
All functions are thread-safe.

All functions raise ValueError for arrays that are not on one GPU, have inconsistent shapes, or are not dense, and for
an ``out`` that overlaps an input. Matrices of ``matmul`` may also be column-major, such as ``b.T``. The functions raise
RuntimeUnavailable and NoSchedule like ``Database.kernel``.
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

from autosched.dispatch import call_log, call_signature, launch_caches
from autosched.dispatch.call_signature import ArraySpec, CallPlan
from autosched.dispatch.database import Database
from autosched.dispatch.given_arrays import ALIGNMENT, as_gpu_array, check_apart, signature_of, torch_of
from autosched.dispatch.kernel import LoadedKernel, gpu_library
from autosched.dispatch.provenance import KernelProvenance
from measurements.files.data_folder import VARIABLE, default_database
from search_spaces.hardware.dtypes import NAMES
from search_spaces.operators.problem import Problem
from search_spaces.tile_operators.tile_problem import TileOperator

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
    """Compute ``activation(a @ b + bias)`` with the best kernel in the database.

    Args:
        a: (..., m, k). With ``block_format``, an array of bytes: (..., m, k) for mxf8, else (..., m, k / 2).
        b: (k, n), or (..., k, n) with the same leading axes. With ``block_format``, a column-major array of bytes:
            (k, n) for mxf8, else (k / 2, n).
        out: Array for the result. Default: a new one.
        scale_a: f32 scales of 8-bit types, given together with ``scale_b``. They multiply the product. There is one
            scale, or one per row of a, (..., m) or (..., m, 1). 8-bit floats can also have one scale per 128 elements
            of a row, (..., m, k / 128), rounded up.
        scale_b: f32 scales of b: one element; one per column of b, (..., n) or (..., 1, n); or one per block of 128
            columns and 128 elements along k, (..., n / 128, k / 128), rounded up.
        block_scale_a: Block scales as bytes, in the layout ``scale_order``.
        block_scale_b: Block scales of b, like ``block_scale_a``.
        block_format: "mxf8", "mxf4" or "nvf4".
        scale_order: "row" or "tiled" (``Matmul``).
        bias: n elements of the result's type.
        activation: "none", "relu", "gelu" or "silu".
        precision: "tf32" allows rounding f32 inputs to tf32, "ieee" does not.
        acc: "f16" accumulates products of f16 in f16.
        dtype: Type of the result. Default: the type of ``out``. Without ``out``, the default is bf16 if a has 8-bit
            floats or ``block_format`` is given. If a is int8, the default is int32, or bf16 if scales are given. For
            other types of a, the default is the type of a.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or a new array of the same library as a.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
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
    """Compute ``x @ w.T`` for an x of at most 16 rows.

    Args:
        x: (k,) or (m, k), m up to 16.
        w: (n, k).
        out: Array for the result, (n,) or (m, n). Default: a new one.
        dtype: Type of the result. Default: type of ``out`` or of x.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or a new array of the same library as x.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    return _call(
        (x, w), out, database, ("matvec", dtype), lambda f, of, o: call_signature.matvec_plan(*f, out=of, dtype=o[1])
    )


def softmax(x: Any, out: Any = None, *, dtype: str | None = None, database: Source | None = None) -> Any:
    """Compute the softmax of x along its last axis.

    Args:
        x: (..., columns).
        out: Array for the result, of x's shape. Default: a new one.
        dtype: Type of the result. Default: type of ``out`` or of x.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or a new array of the same library as x.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
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
        out: Array for the result, of x's shape. Default: a new one.
        eps: Added to the mean of the squares.
        dtype: Type of the result. Default: type of ``out`` or of x.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or a new array of the same library as x.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
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
        out: Array for the result, of x's shape. Default: a new one.
        eps: Added to the variance.
        dtype: Type of the result. Default: type of ``out`` or of x.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or a new array of the same library as x.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
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
    """Reduce x along its first or last axis.

    Args:
        x: At least one axis.
        out: Array for the result, of x's shape without the reduced axis. Default: a new one.
        kind: "sum", "max", "mean", "sumsq" or "argmax", whose result is u32.
        axis: -1 for the last axis, or 0 for the first.
        dtype: Type of the result. Default: type of ``out`` or of x.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or a new array of the same library as x.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    return _call(
        (x,),
        out,
        database,
        ("reduce", kind, axis, dtype),
        lambda f, of, o: call_signature.reduce_plan(*f, out=of, kind=o[1], axis=o[2], dtype=o[3]),
    )


def transpose(x: Any, out: Any = None, *, database: Source | None = None) -> Any:
    """Return x with its last two axes exchanged, as a new dense array. Elements may be of any type of 1 to 16 bytes."""
    return _call((x,), out, database, ("transpose",), lambda f, of, _: call_signature.transpose_plan(*f, out=of))


def use(database: Source | None) -> None:
    """Set the process-wide default database, which takes precedence over AUTOSCHED_DB; None restores AUTOSCHED_DB.

    Raises StoreError, a ValueError, if the database cannot be opened.
    """
    if _default.set(None if database is None else _opened(database)):
        launch_caches.clear()


def chosen() -> tuple[KernelProvenance, ...]:
    """Return the provenance of each kernel that these functions have loaded, in the order of first calls."""
    kernels = [*(loaded.kernel for loaded in list(_loaded.values())), *list(_tile_kernels.values())]
    return tuple(kernel.provenance for kernel in kernels)


def forget() -> None:
    """Drop every kernel that these functions have loaded, for example after more tuning."""
    with _lock:
        _loaded.clear()
        _tile_kernels.clear()
        _databases.clear()
    launch_caches.clear()


def loaded_kernel(problem: Problem, gpu: int) -> LoadedKernel | None:
    """Return the loaded kernel for a problem on a GPU, for calls that pass no ``database``; None if there is none."""
    database, key = _default.get(), problem.key()
    plain = ((owner[0], loaded.gpu, loaded.kernel) for owner, loaded in list(_loaded.items()))
    tiled = ((owner[0], owner[4][3], kernel) for owner, kernel in list(_tile_kernels.items()))
    for owner, at, kernel in (*plain, *tiled):
        if owner is database and at == gpu and kernel.provenance.problem == key:
            return kernel
    return None


def awaited_database() -> str | None:
    """Return the path of the default database if it does not exist yet; else None."""
    return str(default_database()) if _default.get() is _NO_DATABASE else None


@dataclass(frozen=True)
class _LoadedCall:
    """Loaded kernel with everything that later calls of the same signature need.

    ``names`` and ``bytes`` describe the arrays of a call, with the result last. ``order`` is the order of these arrays
    in the kernel; None if the kernel has the same order. ``shape``, ``dtype`` and ``gpu`` describe a new result.
    ``torch`` is the torch module if the first array is a tensor, else None.
    """

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
        """Prepare the calls that ``plan`` describes, for a loaded kernel."""
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
    """Default database, for calls without ``database``."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._is_resolved = False

    def set(self, database: Database | None) -> bool:
        """Set the default database; None restores the database of AUTOSCHED_DB. Return False if this has no effect."""
        changed = database is None or database is not self._database
        self._database, self._is_resolved = database, False
        return changed

    def get(self) -> Database:
        if self._database is None and not self._is_resolved:
            path = default_database()
            known = bool(os.environ.get(VARIABLE)) or os.path.exists(path)
            self._database, self._is_resolved = _opened(path) if known else None, True
        if self._database is None:
            self._is_resolved = False
            return _NO_DATABASE
        return self._database


_lock = threading.RLock()  # locked while a database is opened or a kernel is loaded
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


# the arguments are: inputs, out, options
Make = Callable[[Sequence[ArraySpec], ArraySpec | None, tuple[Any, ...]], CallPlan]


def _matmul_plan(facts: Sequence[ArraySpec], out: ArraySpec | None, options: tuple[Any, ...]) -> CallPlan:
    matmul_options, names = call_signature.MatmulOptions(*options[1:7]), options[7:]
    more = dict(zip(names, facts[2:], strict=True))
    return call_signature.matmul_plan(facts[0], facts[1], **more, out=out, options=matmul_options)


def _call(arrays: tuple[Any, ...], out: Any, source: Source | None, options: tuple[Any, ...], plan: Make) -> Any:
    cp = gpu_library()
    all_arrays: Sequence[Any] = arrays if out is None else (*arrays, out)
    seen = signature_of(cp.ndarray, all_arrays)
    if seen is None:
        all_arrays = _on_gpu(cp, all_arrays, len(arrays))
        seen = signature_of(cp.ndarray, all_arrays)
        assert seen is not None
    looks, starts, bits = seen
    database = _default.get() if source is None else _opened(source)
    key = (database, options, out is None, looks)
    loaded = _loaded.get(key)
    if loaded is None:
        loaded = _load(cp, database, key, plan, _on_gpu(cp, all_arrays, len(arrays)), len(arrays))
    if call_log.active():
        call_log.add(loaded.problem)
    torch = loaded.torch
    if out is None:
        if torch is None:
            result = _new(cp, loaded)
            start = result.data.ptr
        else:
            result = all_arrays[0].new_empty(loaded.shape, dtype=loaded.dtype)
            start = result.data_ptr()
        starts.append(start)
        bits |= start
    else:
        result = out
        check_apart(loaded.names, starts, loaded.bytes, len(arrays))
    if bits % ALIGNMENT:
        name = next(name for name, at in zip(loaded.names, starts, strict=True) if at % ALIGNMENT)
        raise ValueError(f"{name} must start at a multiple of {ALIGNMENT} bytes: copy the view")
    loaded.kernel.launch_at(starts if loaded.order is None else [starts[i] for i in loaded.order], torch)
    return result


def call_tile_operator(
    problem: type[TileOperator],
    arrays: Mapping[str, Any],
    out: Any,
    source: Source | None,
    options: Mapping[str, Any],
) -> Any:
    """Launch an operator defined by a tile program.

    Args:
        problem: Problem type.
        arrays: Inputs by name; None for an omitted optional input.
        out: Array for the result, or a tuple of arrays for several results; None for new ones.
        source: Database for look-ups. None: the default database.
        options: Keyword arguments for ``problem.of_arrays``.

    Returns:
        ``out``, or the new arrays.

    Raises:
        ValueError: Arrays do not fit together.
        NoSchedule: No kernel can compute this.
    """
    cp = gpu_library()
    gpu_arrays = {name: array for name, array in arrays.items() if array is not None}
    seen = signature_of(cp.ndarray, list(gpu_arrays.values()))
    if seen is None:
        gpu_arrays = {name: as_gpu_array(cp, name, array) for name, array in gpu_arrays.items()}
        seen = signature_of(cp.ndarray, list(gpu_arrays.values()))
        assert seen is not None
    database, looks = _default.get() if source is None else _opened(source), seen[0]
    key = (database, problem, tuple(options.items()), tuple(gpu_arrays), looks)
    kernel = _tile_kernels.get(key)
    if kernel is None:
        for name, array in gpu_arrays.items():
            gpu_arrays[name] = as_gpu_array(cp, name, array)
        for array_device in looks[3::4]:
            if array_device != looks[3]:
                raise ValueError(f"the arrays are on GPUs {looks[3]} and {array_device}: move them to one GPU")
        tile_operator = call_signature.tile_problem(problem, {n: _facts(a) for n, a in gpu_arrays.items()}, options)
        with _lock, cp.cuda.Device(looks[3]):
            kernel = _tile_kernels[key] = database.kernel(tile_operator)
        if call_log.active():
            call_log.add(tile_operator)
    elif call_log.active():
        call_log.add(call_signature.tile_problem(problem, {n: _facts(a) for n, a in gpu_arrays.items()}, options))
    return kernel(*(gpu_arrays[o.name] for o in kernel.inputs), out=out)


def _on_gpu(cp: Any, arrays: Sequence[Any], inputs: int) -> list[Any]:
    return [as_gpu_array(cp, f"argument {i + 1}" if i < inputs else "out", array) for i, array in enumerate(arrays)]


def _load(
    cp: Any, database: Database, key: tuple[Any, ...], plan: Make, arrays: Sequence[Any], inputs: int
) -> _LoadedCall:
    """Return the kernel for a call; load it unless a kernel with this key is already loaded."""
    _, options, _, looks = key
    gpu = looks[3]
    for array_device in looks[3::4]:
        if array_device != gpu:
            raise ValueError(f"the arrays are on GPUs {gpu} and {array_device}: move them to one GPU")
    with _lock:
        if key not in _loaded:
            facts = [_facts(array) for array in arrays]
            loaded_plan = plan(facts[:inputs], facts[inputs] if len(facts) > inputs else None, options)
            with cp.cuda.Device(gpu):
                kernel = database.kernel(loaded_plan.problem)
            _loaded[key] = _LoadedCall.of(kernel, loaded_plan, arrays[0], gpu)
        return _loaded[key]


def _facts(array: Any) -> ArraySpec:
    if hasattr(array, "stride"):  # the first array is a tensor
        kind, size = str(array.dtype).removeprefix("torch."), int(array.element_size())
        return ArraySpec(tuple(array.shape), tuple(array.stride()), kind, size)
    size = array.dtype.itemsize
    return ArraySpec(array.shape, tuple(stride // size for stride in array.strides), array.dtype.name, size)


def _result_type(first: Any, out_type: str | None) -> Any:
    """Return the result's type as a type object of the library of the first array."""
    torch = torch_of(first)
    if torch is not None:
        return first.dtype if out_type is None else getattr(torch, _NAMES[out_type])
    if out_type is None or call_signature.TYPES.get(first.dtype.name) == out_type:
        return first.dtype
    name = _NAMES[out_type]
    return getattr(importlib.import_module("ml_dtypes"), name) if out_type in NAMES else np.dtype(name)


def _new(cp: Any, loaded: _LoadedCall) -> Any:
    """Return a new cupy array for the result, on the GPU of the arguments."""
    if cp.cuda.runtime.getDevice() == loaded.gpu:
        return cp.empty(loaded.shape, loaded.dtype)
    with cp.cuda.Device(loaded.gpu):
        return cp.empty(loaded.shape, loaded.dtype)


_NAMES = {ours: name for name, ours in call_signature.TYPES.items()}
call_log.start_from_environment()
