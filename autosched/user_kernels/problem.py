"""Problems of users' kernels. Each kernel file has its own problem type, whose fields are the file's sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import PurePath
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.expressions import Result
from autosched.user_kernels.kernel_file import InputFill, KernelArgument, KernelFile, UserFunction
from autosched.user_kernels.lowering import lower, operand
from autosched.user_kernels.user_functions import call
from measurements.emulator import emulate
from measurements.files.npy import open_npy
from measurements.trials.comparison import magnitudes, root_mean_square
from measurements.trials.tolerance import checked_tolerance
from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import DRAWN, EarlierReference, Problem, option, standard_normal
from search_spaces.spaces.parameters import Value

_EMULATION_SECONDS = 60.0  # limit in CPU seconds for emulating a reference kernel, if the file sets none


class KernelProblem(Problem):
    """Base of the problem types that ``problem_type`` creates.

    The operator has the name of the kernel file. A problem's JSON contains the sizes, and in ``computes`` a digest that
    identifies the computation.
    """

    file: ClassVar[KernelFile]

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by name."""
        return {name: getattr(self, name) for name, _ in self.file.sizes}

    def __post_init__(self) -> None:
        """Raise ValueError for sizes that are not positive integers, or that give an array without elements."""
        self._take_sizes(*(name for name, _ in self.file.sizes))
        for o in self.operands():
            if min(o.shape) < 1:
                raise ValueError(f"{o.name} would have the shape {o.shape}: use larger sizes")

    @property
    def described(self) -> str:
        """Name of the kernel with its sizes."""
        return " ".join((self.operator, *(f"{name}={size}" for name, size in self.sizes.items())))

    @property
    def defined_at(self) -> tuple[str, int]:
        """File and line at which the user's source defines the kernel."""
        return self.file.defined_at

    def operands(self) -> tuple[Operand, ...]:
        """Return every array except workspaces, in the order of the entry function.

        An array that is read and written appears twice, as an input and as an output of the same name.
        """
        return tuple(self.operand(a) for a in self.file.arrays if a.kind != "workspace")

    def operand(self, argument: KernelArgument) -> Operand:
        """Return an array argument at these sizes.

        If its shape depends on the configuration, the largest extents are used.
        """
        known = self.sizes
        if all(name in known for e in argument.shape for name in e.names):
            return operand(argument, known)
        return Operand(argument.name, "output", argument.dtype, _largest(self.file, argument, tuple(known.items())))

    @property
    def reduction_is_inferred(self) -> bool:
        """True if the reduced problem must be inferred, because the kernel file does not define one."""
        return not self.file.proxy

    def remedy_of_unset(self, name: str) -> str:
        """Return advice on how to zero an array before the launch; "" if the array already has contents."""
        for a in self.file.arrays:
            if a.name == name and a.kind in ("output", "workspace") and a.fill is None and not a.zeroed:
                return f"if the kernel adds to {name}, write zeroed = true for the argument {name}"
        return ""

    def under(self, values: Mapping[str, Value]) -> KernelProblem:
        """Return the problem, with the types and tolerances that its arguments have in a configuration."""
        file = self.file.under(values)
        return self if file is self.file else problem_type(file).of(self.sizes)

    @property
    def flops(self) -> float:
        """Value of the file's expression for FLOPs at these sizes; 0 if the file has none."""
        return 0.0 if self.file.flops is None else float(self.file.flops.value(self.sizes))

    def metrics(self, config: Mapping[str, Value], seconds: float) -> Mapping[str, float]:
        """Return the values of the file's metrics. Raises ValueError if a metric is undefined."""
        return self.file.metric_values(self.sizes, config, seconds)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the file's metrics."""
        return tuple(metric.name for metric in self.file.metrics)

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return input arrays with the contents that the kernel file describes.

        Raises:
            ValueError: The contents of an .npy file do not match the array.
        """
        rng = np.random.default_rng(seed)
        inputs: dict[str, Array] = {}
        for a in self.file.arguments:
            if a.fill is None:
                continue
            if a.fill.function is not None:
                inputs[a.name] = self._computed(a, a.fill.function, seed, inputs)
            else:
                inputs[a.name] = _filled(rng, a.fill, a.dtype, self.operand(a))
        return inputs

    def _computed(self, a: KernelArgument, function: UserFunction, seed: int, before: Mapping[str, Array]) -> Array:
        """Return the contents of an input that a function computes from sizes, ``seed``, and the preceding inputs."""
        label = f"{a.position}{': ' if a.position else ''}the fill {function.name} of {a.name}"
        dtypes = {b.name: b.dtype for b in self.file.arrays}
        operand, known = self.operand(a), {n: _values(dtypes[n], v) for n, v in before.items()}
        returned = call(function, label, {**self.sizes, "seed": seed}, known, operand.size)
        array = np.asarray(returned)
        if array.dtype.kind not in "fiub" or array.shape != operand.shape:
            raise KernelFileError(
                f"{label} returns {_kind_of(array)}, but must return numbers of shape {operand.shape}"
            )
        return np.ascontiguousarray(a.dtype.store(array))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the outputs of the file's reference, in float64, or in 64-bit integers if it returns integers.

        If the reference is a kernel, it runs in the emulator.

        Raises:
            KernelFileError: A function fails or returns outputs that do not match, or a kernel cannot be emulated. The
                message is one line.
            HostFailure: This machine cannot run the emulator.
        """
        reference = self.file.reference
        outputs = [o for o in self.operands() if o.role in ("output", "inout")]
        if reference.checks_outputs:
            return {}
        if reference.function is None:
            own = {a.name: a.dtype for a in self.file.arrays}
            other = reference.kernel or self.file
            limit = reference.time_limit or _EMULATION_SECONDS
            computed, types = _emulated(other, self.sizes, dict(reference.config), inputs, own, limit)
            return {o.name: _exact(types[o.name], computed[o.name]) for o in outputs}
        label = self._label
        result = call(reference.function, label, self._numbers, self._read(inputs), sum(o.size for o in outputs))
        returned = result if isinstance(result, Mapping) else {outputs[0].name: result}
        if set(returned) != {o.name for o in outputs}:
            names = ", ".join(o.name for o in outputs)
            raise KernelFileError(f"{label} must return {names}, but it returns {', '.join(map(str, returned))}")
        return {o.name: _checked(label, o, returned[o.name]) for o in outputs}

    @property
    def computed_by_function(self) -> bool:
        """True if a function computes the expected outputs, at any size. Then no reference kernel is emulated."""
        return self.file.reference.function is not None and not self.file.reference.checks_outputs

    @property
    def checks_outputs(self) -> bool:
        """True if the user's function checks outputs instead of computing them."""
        return self.file.reference.checks_outputs

    def check_outputs(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> str | None:
        """Return the error that the user's function reports about the outputs; None without such a function.

        Raises KernelFileError if the function fails, or does not return a verdict.
        """
        reference = self.file.reference
        if not reference.checks_outputs or reference.function is None:
            return None
        dtypes = {a.name: a.dtype for a in self.file.arrays}
        values = {name: _values(dtypes[name], array) for name, array in outputs.items()}
        before = {name if name not in values else f"{name}_before": a for name, a in self._read(inputs).items()}
        answer = call(reference.function, self._label, self._numbers, {**before, **values})
        if isinstance(answer, str):
            return answer
        if not isinstance(answer, (bool, np.bool_)):  # for example None, if there is no return statement
            raise KernelFileError(
                f"{self._label} must return True if the outputs are right, otherwise False or a text that "
                "describes the error"
            )
        return "" if answer else f"{reference.name} returned False: the outputs are wrong"

    @property
    def _label(self) -> str:
        reference = self.file.reference
        role = "the function" if reference.checks_outputs else "the reference"
        return f"{reference.position}{': ' if reference.position else ''}{role} {reference.name}"

    @property
    def _numbers(self) -> dict[str, int | float]:
        """Return the sizes, and the scalars that depend only on sizes."""
        known: dict[str, int | float] = dict(self.sizes)
        for a in self.file.arguments:
            if a.value is not None and a.name not in known and self.sizes.keys() >= set(a.value.names):
                value = a.value.value(self.sizes)
                if not isinstance(value, str):
                    known[a.name] = value
        return known

    def _read(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the kernel's inputs as arrays of numbers, for a user's function."""
        return {o.name: _values(o.dtype, inputs[o.name]) for o in self.operands() if o.role in ("input", "inout")}

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``atol + rtol * |reference|`` for each element of each output. Raises the errors of ``reference``.

        The default rtol is 4 units in the last place of the output's type (256 for f32 and f64). This is about the
        error of a sum of a thousand terms. The default atol is rtol times the output's root mean square. Integers must
        be equal.
        """
        if self.checks_outputs:
            return {}
        needs_default = any(a.atol is None or a.rtol != 0.0 for a in self._outputs)
        return self._allowed(self.reference(inputs) if needs_default else {})

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the user's reference and tolerance; both are empty if a function checks the outputs."""
        reference = self.reference(inputs)
        return reference, {} if self.checks_outputs else self._allowed(reference)

    @property
    def _outputs(self) -> list[KernelArgument]:
        return [a for a in self.file.arrays if a.kind in ("output", "inout")]

    def _allowed(self, reference: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        tolerances = {}
        for a in self._outputs:
            magnitude = np.abs(reference[a.name], dtype=np.float64) if a.atol is None or a.rtol != 0.0 else None
            reference_dtype = self.reference_dtype(a.name)
            share = _roundoff(a.dtype)
            if reference_dtype is not None and self.file.reference.kernel is None:
                share = max(share, _roundoff(reference_dtype))
            values = np.zeros(self.operand(a).shape) if magnitude is None else magnitude
            atol = share * root_mean_square(values) if a.atol is None and a.rtol is None else a.atol or 0.0
            rtol = share if a.atol is None and a.rtol is None else a.rtol or 0.0
            with np.errstate(over="ignore"):
                tolerances[a.name] = atol + rtol * (
                    values if reference_dtype is None else magnitudes(values, reference_dtype)
                )
            overflowed = np.isinf(tolerances[a.name]) & np.isfinite(values)
            if overflowed.any():
                # raises ToleranceError, because a tolerance must be finite
                checked_tolerance(math.inf, f"tolerance of {a.name}")
        return tolerances

    def reference_dtype(self, output: str) -> DType | None:
        """Return the type in which a reference kernel computed an output; None for a reference function (float64)."""
        reference = self.file.reference
        if reference.function is not None:
            return None
        other = reference.kernel or self.file
        config = {p.name: p.default for p in other.parameters} | dict(reference.config)
        return next((a.dtype for a in other.under(config).arrays if a.name == output), None)

    def to_json(self) -> dict[str, Any]:
        """Return the sizes, the digest of the computation, and the argument types that the schedule determines."""
        types = {a.name: a.dtype.name for a in self.file.arrays if a.dtype_by is not None} if self.file.is_under else {}
        return {**super().to_json(), "computes": self.file.computes, **({"types": types} if types else {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the problem that a JSON document describes.

        Raises ValueError for invalid sizes, and EarlierReference if the computation of the kernel file has changed.
        """
        if data.get("computes") != cls.file.computes:
            raise EarlierReference(f"this was recorded when {cls.file.name} had other arguments or another reference")
        return super().from_json({k: v for k, v in data.items() if k not in ("computes", "types")})

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Self:
        """Return the problem with these sizes; the other sizes have the file's values.

        Raises ValueError for an unknown size.
        """
        known = dict(cls.file.sizes)
        for name in sizes:
            if name not in known:
                raise ValueError(f"{cls.file.name} has no size {name!r}: use {', '.join(known)}")
        return cls(**{**known, **sizes})


def problem_type(file: KernelFile) -> type[KernelProblem]:
    """Return the problem type of a kernel file: a frozen dataclass with a field for each size."""
    return _problem_type(file, file.external_files)


@cache
def _problem_type(file: KernelFile, keys: tuple[str, ...]) -> type[KernelProblem]:
    fields = [(name, "int", option(f"{name} of the problem", value)) for name, value in file.sizes]
    namespace = {"operator": file.name, "summary": file.summary, "file": file, "__module__": __name__}
    return dataclasses.make_dataclass(
        f"KernelProblem[{file.name}]", fields, bases=(KernelProblem,), namespace=namespace, frozen=True
    )


def _emulated(
    file: KernelFile,
    sizes: Mapping[str, int],
    chosen: Mapping[str, Value],
    inputs: Mapping[str, Array],
    types: Mapping[str, DType],
    limit: float,
) -> tuple[Mapping[str, Array], Mapping[str, DType]]:
    """Emulate a kernel with its default parameters, overridden by ``chosen``; return outputs and types of arrays.

    ``types`` are the types of ``inputs``. Raises KernelFileError if the kernel fails, or takes longer than ``limit``
    seconds.
    """
    config = {p.name: chosen.get(p.name, p.default) for p in file.parameters}
    sizes = {name: sizes.get(name, usual) for name, usual in file.sizes}
    read = [a.name for a in file.arguments if a.fill is not None]
    label = f"the reference of {file.name} (the kernel itself with {config})"
    file, values = file.under(config), file.values(sizes, config)
    for rule in file.rules:
        if not rule.pruning and not rule.expression.value(values):
            raise KernelFileError(f"{label} breaks a rule: {rule.reason or rule.expression.text}")
    if not inputs.keys() >= set(read):
        raise KernelFileError(
            f"{label} reads {', '.join(read)}, but this kernel has {', '.join(inputs)}: use the same names"
        )
    filled = {a.name: inputs[a.name] for a in file.arguments if a.fill is not None}
    for a in file.arrays:  # convert inputs whose type depends on the configuration
        if a.name in filled and filled[a.name].dtype != np.dtype(a.dtype.storage) and a.name in types:
            filled[a.name] = a.dtype.store(_values(types[a.name], filled[a.name]))
    try:
        kernel = lower(file, sizes, config)
    except KernelFileError:
        raise
    except ValueError as error:
        raise KernelFileError(f"{label} cannot be launched: {error}") from None
    run = emulate(kernel, filled, time_limit=limit, check=False)
    if run.status == "timeout":
        raise KernelFileError(
            f"{label} was not emulated within {limit:g} s: if it needs longer, write time_limit = "
            f"{10 * limit:g} under [reference], in seconds"
        )
    if run.status not in ("ok", "findings"):
        raise KernelFileError(f"{label} cannot be emulated ({run.status}): {run.reason}")
    return run.outputs, {a.name: a.dtype for a in file.arrays}


_MOST_SHAPES = 1 << 20  # maximum number of configurations that a shape may depend on


@lru_cache(maxsize=256)
def _largest(file: KernelFile, argument: KernelArgument, sizes: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    """Return the largest extents of an array over all parameter values, ignoring the rules.

    Raises:
        KernelFileError: There are too many combinations.
    """
    known: dict[str, Result] = dict(sizes)
    derived = {a.name: a.expression for a in file.derived}
    needed: set[str] = set()
    waiting = [name for e in argument.shape for name in e.names]
    while waiting:
        name = waiting.pop()
        if name not in known and name not in needed:
            needed.add(name)
            waiting += derived[name].names if name in derived else ()
    parameters = [p for p in file.parameters if p.name in needed]
    if math.prod(len(p.values) for p in parameters) > _MOST_SHAPES:
        raise KernelFileError(f"{argument.position}: the shape of {argument.name} depends on too many configurations")
    grids = np.meshgrid(*(np.array(p.values, dtype=object) for p in parameters), indexing="ij")
    columns = {
        p.name: g.reshape(-1) if p.is_text else g.reshape(-1).astype(np.int64)
        for p, g in zip(parameters, grids, strict=True)
    }
    defined = np.ones(grids[0].size, dtype=np.bool_)
    for name, expression in derived.items():
        if name in needed:
            columns[name], is_defined = expression.columns(columns, known)
            defined = defined & is_defined
    extents = []
    for e in argument.shape:
        if set(e.names) <= known.keys():
            extents.append(int(e.value(known)))
            continue
        values, is_defined = e.columns({n: columns[n] for n in e.names if n in columns}, known)
        possible = values[is_defined & defined]
        if not possible.size or possible.max() < 1:
            raise KernelFileError(f'{argument.position}: the extent "{e.text}" of {argument.name} has no value')
        extents.append(int(possible.max()))
    return tuple(extents)


def _kind_of(array: npt.NDArray[Any]) -> str:
    return f"{array.shape} of {array.dtype}"


def _roundoff(dtype: DType) -> float:
    if not dtype.is_float:
        return 0.0
    return 4 * dtype.unit_roundoff + 256 * 2.0 ** (-53 if dtype.name == "f64" else -24)


def _values(dtype: DType, stored: Array) -> Array:
    """Return a mutable copy with the types that references compute in: floats as float64, integers unchanged."""
    return dtype.load(stored) if dtype.is_float else stored.copy()


def _is_wide(dtype: DType) -> bool:
    """Return True if the type has integers that float64 cannot represent."""
    return not dtype.is_float and dtype.bits == 64


def _exact(dtype: DType, stored: Array) -> npt.NDArray[Any]:
    return stored if _is_wide(dtype) else dtype.load(stored)


def _checked(label: str, output: Operand, returned: Any) -> npt.NDArray[Any]:
    try:
        if returned is None:
            raise TypeError
        array = np.asarray(returned, dtype=np.float64)
        if _is_wide(output.dtype):
            full_array, storage = np.asarray(returned), np.dtype(output.dtype.storage)
            if full_array.dtype.kind in "iu" and np.array_equal(full_array.astype(storage), full_array):
                array = full_array.astype(storage)
    except (TypeError, ValueError):
        raise KernelFileError(f"{label} returns no numbers for {output.name}") from None
    if array.shape == ():
        array = np.full(output.shape, array)
    if array.shape != output.shape:
        raise KernelFileError(
            f"{label} returns {output.name} with shape {array.shape}, but the shape must be {output.shape}"
        )
    return array


def _filled(rng: np.random.Generator, fill: InputFill, dtype: DType, operand: Operand) -> Array:
    """Return a new input array. A large array repeats a prime number of random elements (see ``standard_normal``)."""
    if fill.kind == "file":
        return _loaded(fill, dtype, operand)
    if fill.kind == "array":
        return _fitting("the array", fill.array, dtype, operand)
    if fill.kind == "constant":
        return dtype.store(np.full(operand.shape, fill.numbers[0]))
    low, high = fill.numbers
    if fill.kind == "normal" and low == 0:
        return standard_normal(rng, operand.shape, dtype, high)
    count = min(operand.size, DRAWN)
    match fill.kind:
        case "integers":
            drawn: Array = rng.integers(int(low), int(high), count, endpoint=True)
        case "uniform":
            drawn = rng.uniform(low, high, count)
        case _:
            drawn = rng.normal(low, high, count)
    return np.resize(dtype.store(drawn), operand.shape)


def _loaded(fill: InputFill, dtype: DType, operand: Operand) -> Array:
    name = PurePath(fill.path).name
    try:
        array = open_npy(fill.path)
    except ValueError as error:
        raise KernelFileError(f"{name} is not a .npy file of numbers: {error}") from None
    return _fitting(name, array, dtype, operand)


def _fitting(name: str, array: npt.NDArray[Any], dtype: DType, operand: Operand) -> Array:
    """Return the array in the operand's storage type. Raises KernelFileError for a wrong shape or bad values."""
    if array.shape != operand.shape:
        raise KernelFileError(f"{name} has the shape {array.shape}, but {operand.name} is {operand.shape}")
    if array.dtype.kind not in "fiub":
        raise KernelFileError(f"{name} has elements of type {array.dtype}, which are not numbers")
    storage = np.dtype(dtype.storage)
    same_kind = (array.dtype.kind == "f") == dtype.is_float
    if array.dtype != storage and not (same_kind and array.dtype.itemsize <= storage.itemsize):
        with np.errstate(all="ignore"):
            stored = dtype.load(dtype.store(array))
        if not np.allclose(stored, array, rtol=max(2 * dtype.unit_roundoff, 0), atol=0, equal_nan=True):
            raise KernelFileError(f"{name} has {array.dtype} numbers that {dtype.name} cannot represent: convert it")
    return np.ascontiguousarray(dtype.store(_values(dtype, array) if array.dtype == dtype.storage else array))
