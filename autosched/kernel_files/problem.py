"""What a user's kernel computes, as a Problem: one type for each kernel file, whose fields are the file's sizes."""

from __future__ import annotations

import dataclasses
import inspect
import math
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from autosched.kernel_files.document import KernelFileError
from autosched.kernel_files.kernel_file import Argument, Fill, KernelFile
from autosched.kernel_files.lowering import lower, operand
from measurements.emulator import emulate
from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtypes import DType
from search_spaces.operators.problem import DRAWN, Array, Operand, Problem, option, standard_normal
from search_spaces.spaces.parameters import Value

_EMULATION_SECONDS = 600.0  # that a kernel which is the reference of another one may take


class KernelProblem(Problem):
    """The base of the problem types that ``problem_type`` makes: their operator is the kernel file's name, and their
    JSON holds the sizes and ``computes``, which stands for everything else."""

    file: ClassVar[KernelFile]

    @property
    def sizes(self) -> dict[str, int]:
        return {name: getattr(self, name) for name, _ in self.file.sizes}

    def __post_init__(self) -> None:
        """Raises ValueError for sizes that are no whole numbers from 1 up, or make an array without elements."""
        self._take_sizes(*(name for name, _ in self.file.sizes))
        for o in self.operands():
            if min(o.shape) < 1:
                raise ValueError(f"{o.name} would have the shape {o.shape}: use larger sizes")

    def operands(self) -> tuple[Operand, ...]:
        """Every array but workspaces, in the order of the entry function; one that is read and written is an input and
        an output of one name."""
        return tuple(self.operand(a) for a in self.file.arrays if a.kind != "workspace")

    def operand(self, argument: Argument) -> Operand:
        """An array argument at these sizes."""
        return operand(argument, self.sizes)

    @property
    def flops(self) -> float:
        return 0.0 if self.file.flops is None else float(self.file.flops.value(self.sizes))

    def metrics(self, config: Mapping[str, Value], seconds: float) -> Mapping[str, float]:
        """The metrics of the file. Raises ValueError where one is undefined."""
        return self.file.metric_values(self.sizes, config, seconds)

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """The inputs, filled as the file says. Raises ValueError for a file of numbers that does not fit."""
        rng = np.random.default_rng(seed)
        return {
            a.name: _filled(rng, a.fill, a.dtype, self.operand(a)) for a in self.file.arguments if a.fill is not None
        }

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """The outputs that the file's reference gives, in float64, and integers of 64 bits as they are where it gives
        integers. Where it is a kernel, the emulator runs it.

        Raises KernelFileError, in one line, for a function that fails or gives something else than the outputs, and for
        a kernel that cannot be emulated; HostFailure where this machine cannot emulate.
        """
        reference = self.file.reference
        outputs = [o for o in self.operands() if o.role in ("output", "inout")]
        if reference.function is None:
            found = _emulated(reference.kernel or self.file, self.sizes, dict(reference.config), inputs)
            return {o.name: _exact(o.dtype, found[o.name]) for o in outputs}
        told = f"{reference.place}{': ' if reference.place else ''}the reference {reference.name}"
        given: dict[str, Any] = {**self.sizes}
        for o in self.operands():
            if o.role in ("input", "inout"):
                given[o.name] = _values(o.dtype, inputs[o.name])
        try:
            function = reference.function()
            takes = inspect.signature(function).parameters
            anything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
            unknown = [n for n, p in takes.items() if n not in given and p.default is p.empty and not anything]
            if not unknown:
                result = function(**{n: v for n, v in given.items() if anything or n in takes})
        except Exception as error:  # the user's code may raise anything
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise KernelFileError(f"{told} fails{_line_in(reference.name, error)}: {said}") from error
        if unknown:
            raise KernelFileError(f"{told} asks for {unknown[0]}: it can have {', '.join(given)}")
        found = result if isinstance(result, Mapping) else {outputs[0].name: result}
        if set(found) != {o.name for o in outputs}:
            names = ", ".join(o.name for o in outputs)
            raise KernelFileError(f"{told} must give {names}, not {', '.join(map(str, found))}")
        return {o.name: _checked(told, o, found[o.name]) for o in outputs}

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """``atol + rtol * |reference|`` for each element of each output; raises as ``reference`` does.

        Where the file says nothing, rtol is four units in the last place of the output's type and 256 of f32 (f64 for
        f64), which is what a sum of some thousand terms gathers, and atol the same of the output's root mean square;
        integers must be equal.
        """
        asked = any(a.atol is None or a.rtol != 0.0 for a in self._outputs)
        return self._allowed(self.reference(inputs) if asked else {})

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        reference = self.reference(inputs)
        return reference, self._allowed(reference)

    @property
    def _outputs(self) -> list[Argument]:
        return [a for a in self.file.arrays if a.kind in ("output", "inout")]

    def _allowed(self, reference: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        found = {}
        for a in self._outputs:
            wanted = np.abs(reference[a.name], dtype=np.float64) if a.atol is None or a.rtol != 0.0 else None
            share = _roundoff(a.dtype)
            values = np.zeros(self.operand(a).shape) if wanted is None else wanted
            finite = values[np.isfinite(values)]
            level = math.sqrt(float(np.mean(np.square(finite)))) if finite.size else 0.0
            atol = share * level if a.atol is None and a.rtol is None else a.atol or 0.0
            rtol = share if a.atol is None and a.rtol is None else a.rtol or 0.0
            found[a.name] = atol + rtol * values
        return found

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "computes": self.file.computes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises ValueError as Problem does, and for one recorded when the kernel file computed something else."""
        if data.get("computes") != cls.file.computes:
            raise ValueError(f"this was recorded when {cls.file.name} computed something else (arguments or reference)")
        return super().from_json({k: v for k, v in data.items() if k != "computes"})

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Self:
        """The problem of these sizes, and the file's own for those not given. Raises ValueError for an unknown one."""
        known = dict(cls.file.sizes)
        for name in sizes:
            if name not in known:
                raise ValueError(f"{cls.file.name} has no size {name!r}: use {', '.join(known)}")
        return cls(**{**known, **sizes})


@cache
def problem_type(file: KernelFile) -> type[KernelProblem]:
    """The problem type of a kernel file: a frozen dataclass with a field for each size."""
    fields = [(name, "int", option(f"the size {name}", value)) for name, value in file.sizes]
    namespace = {"operator": file.name, "summary": file.summary, "file": file, "__module__": __name__}
    return dataclasses.make_dataclass(
        f"KernelProblem[{file.name}]", fields, bases=(KernelProblem,), namespace=namespace, frozen=True
    )


def _emulated(
    file: KernelFile, sizes: Mapping[str, int], chosen: Mapping[str, Value], inputs: Mapping[str, Array]
) -> Mapping[str, Array]:
    """What a kernel computes at its defaults, but for what is ``chosen``. Raises KernelFileError where it does not."""
    config = {p.name: chosen.get(p.name, p.default) for p in file.parameters}
    sizes = {name: sizes.get(name, usual) for name, usual in file.sizes}
    read = [a.name for a in file.arguments if a.kind == "input"]
    told = f"the reference of {file.name}, itself at {config},"
    values = file.values(sizes, config)
    for rule in file.rules:
        if not rule.pruning and not rule.expression.value(values):
            raise KernelFileError(f"{told} breaks a rule: {rule.reason or rule.expression.text}")
    if not inputs.keys() >= set(read):
        raise KernelFileError(f"{told} reads {', '.join(read)}, and there are {', '.join(inputs)}: name them alike")
    given = {name: inputs[name] for name in read}
    run = emulate(lower(file, sizes, config), given, time_limit=_EMULATION_SECONDS, check=False)
    if run.status not in ("ok", "findings"):
        raise KernelFileError(f"{told} cannot be emulated ({run.status}): {run.reason}")
    return run.outputs


def _roundoff(dtype: DType) -> float:
    if not dtype.is_float:
        return 0.0
    return 4 * dtype.unit_roundoff + 256 * 2.0 ** (-53 if dtype.name == "f64" else -24)


def _values(dtype: DType, stored: Array) -> Array:
    """What a reference calculates with: float64 for floats, whole numbers as they are."""
    return dtype.load(stored) if dtype.is_float else stored


def _line_in(reference: str, error: Exception) -> str:
    """`` at line N`` of the file of ``reference`` ("file.py:function"), where the error passed through it."""
    file = reference.rpartition(":")[0]
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if file and Path(f.filename).name == file]
    return f" at line {lines[-1]}" if lines else ""


def _is_wide(dtype: DType) -> bool:
    """Whether float64 lacks some of its integers."""
    return not dtype.is_float and dtype.bits == 64


def _exact(dtype: DType, stored: Array) -> npt.NDArray[Any]:
    return stored if _is_wide(dtype) else dtype.load(stored)


def _checked(told: str, output: Operand, given: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(given, dtype=np.float64)
        if _is_wide(output.dtype):
            whole, storage = np.asarray(given), np.dtype(output.dtype.storage)
            if whole.dtype.kind in "iu" and np.array_equal(whole.astype(storage), whole):
                array = whole.astype(storage)
    except (TypeError, ValueError):
        raise KernelFileError(f"{told} gives no numbers for {output.name}") from None
    if array.shape != output.shape:
        raise KernelFileError(f"{told} gives {output.name} as {array.shape}, which must be {output.shape}")
    return array


def _filled(rng: np.random.Generator, fill: Fill, dtype: DType, operand: Operand) -> Array:
    """A new input. Numbers are drawn for a prime number of elements at most, as ``standard_normal`` explains."""
    if fill.kind == "file":
        return _loaded(fill, dtype, operand)
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


def _loaded(fill: Fill, dtype: DType, operand: Operand) -> Array:
    try:
        array = np.load(fill.path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{fill.path} is no .npy file of numbers: {' '.join(str(error).split())}") from error
    if array.shape != operand.shape:
        raise ValueError(f"{fill.path} has the shape {array.shape}, but {operand.name} is {operand.shape}")
    return np.ascontiguousarray(dtype.store(_values(dtype, array) if array.dtype == dtype.storage else array))
