"""Is a configuration right? It is emulated, and compared with a reference: a function, or the kernel's own default."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from autosched.triton.storages import storage_bytes
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.compiling import CompiledCandidate, NotLaunched
from measurements.emulator import ASCENDING, Emulation, Order, emulate_ptx, emulator_version
from measurements.emulator.memory import Flags
from search_spaces.arrays import BoolArray, FloatArray
from search_spaces.operators.problem import Array, Problem
from search_spaces.spaces.schedule import Schedule

Reference = Callable[..., Any]
ORDERS = (ASCENDING, Order("descending"), Order("interleaved", 7), Order("random", 11))
# Relative errors that are allowed, by the type of an output; absolute ones are the same part of its RMS.
_RELATIVE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
_RELATIVE_OF_8_BITS = 0.15


class NoReference(ValueError):
    """There is nothing to compare with. The message is one line that says what to do."""


@dataclass(frozen=True)
class Verdict:
    """Satisfies ``tuning.ledger.VerifyOutcome``. ``worst`` is the largest error over its tolerance, ``against`` what
    was compared with, ``sizes`` the call that ran, and ``lacks`` what it does not show."""

    status: str
    reason: str
    worst: float | None
    runs: tuple[str, ...] = ()
    seconds: float = 0.0
    against: str = ""
    sizes: str = ""
    lacks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def proof(self) -> dict[str, Any]:
        """What a record keeps."""
        return {
            "status": self.status,
            "depth": "full" if len(self.runs) > 1 else "quick",
            "whole": True,
            "emulator": emulator_version(),
            "compiler": None,
            "ptx": None,
            "seconds": round(self.seconds, 3),
            "lacks": list(self.lacks),
            "runs": [
                {"name": run, "problem": self.sizes, "cases": [f"against {self.against}"], "order": run, "turns": 0}
                for run in self.runs
            ],
        }


@dataclass(frozen=True, eq=False)
class _Expected:
    """Of one output: values, where they count, and the bytes of its storage that the reference wrote, if it is
    known."""

    values: FloatArray
    where: BoolArray
    written: Flags | None


@dataclass(eq=False)
class Judge:
    """Judges configurations on one call.

    ``compile`` makes a candidate of a schedule for that call. ``reference`` is called with the arguments by name, on
    copies, and returns outputs by name (a tensor alone where there is one output), or changes them in place and returns
    None; without one the first of ``defaults`` that can be launched is emulated. ``tolerance`` is relative and
    absolute, by default what the type of each output allows. ``time_limit``: CPU seconds of one emulated run.
    """

    problem: Problem
    call: KernelCall
    compile: Callable[[Schedule], CompiledCandidate]
    defaults: Sequence[Schedule]
    reference: Reference | None = None
    tolerance: tuple[float, float] | None = None
    time_limit: float = 60.0
    lacks: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    against: str = ""
    _expected: dict[str, _Expected] | None = None

    def prepare(self) -> None:
        """Find what to compare with. Raises NoReference."""
        if self._expected is None:
            self._expected = self._of_function() if self.reference is not None else self._of_default()

    def judge(self, schedule: Schedule, orders: Sequence[Order] = (ASCENDING,)) -> Verdict:
        """Raises NoReference."""
        self.prepare()
        try:
            made = self.compile(schedule)
        except NotLaunched as error:
            return Verdict(error.status.value, error.reason, None)
        worst, seconds, names = 0.0, 0.0, []
        for order in orders:
            done = self._run(made, order)
            seconds += done.run_seconds
            if done.status != "ok":
                return Verdict(done.status, done.reason, None)
            largest, reason = self._compared(made, done)
            if reason:
                return Verdict("wrong_result", reason, largest)
            worst = max(worst, largest)
            names.append(order.name)
        return Verdict("ok", "", worst, tuple(names), seconds, self.against, self.problem.key(), self.lacks)

    def _run(self, made: CompiledCandidate, order: Order = ASCENDING, calls: int = 1) -> Emulation:
        inputs, memory = made.arguments.inputs(), made.arguments.memory()
        return emulate_ptx(
            made.ptx, made.launch, inputs, memory=memory, order=order, calls=calls, time_limit=self.time_limit
        )

    def _of_function(self) -> dict[str, _Expected]:
        assert self.reference is not None
        self.against = f"the reference {getattr(self.reference, '__name__', 'function')}"
        copies = {name: _copied(value) for name, value in self.call.arguments.items()}
        outputs = {name: tensor.clone() for name, tensor in self.call.outputs.items()}
        found = self.reference(**copies, **outputs)
        tensors = dict(self.call.tensors())
        if isinstance(found, torch.Tensor):
            found = {self._only_output(): found}
        elif found is None:
            changed = {**copies, **outputs}
            found = {n: t for n, t in changed.items() if isinstance(t, torch.Tensor) and not _same(t, tensors[n])}
        if not isinstance(found, Mapping) or not found:
            raise NoReference(f"{self.against} gives no outputs: return them by the names of the kernel's parameters")
        expected = {}
        for name, values in found.items():
            if name not in tensors:
                raise NoReference(f"{self.against} gives {name!r}, which is none of {', '.join(tensors)}")
            wanted = torch.as_tensor(values).double().numpy()
            if wanted.shape != tuple(tensors[name].shape):
                raise NoReference(
                    f"{self.against} gives {name} of shape {wanted.shape}, and it has {tuple(tensors[name].shape)}"
                )
            expected[name] = _Expected(wanted, np.ones(wanted.shape, np.bool_), None)
        return expected

    def _only_output(self) -> str:
        made, done = self._default_run()
        written = [name for name, tensor in self.call.tensors() if _written(made, done, tensor).any()]
        if len(written) != 1:
            raise NoReference(f"{self.against} gives one tensor, and the kernel writes {', '.join(written)}: name them")
        return written[0]

    def _of_default(self) -> dict[str, _Expected]:
        made, done = self._default_run()
        twice = self._run(made, calls=2)
        expected, adds = {}, []
        for name, tensor in self.call.tensors():
            where = _written(made, done, tensor)
            if not where.any():
                continue
            operand = _operand(made, tensor)
            expected[name] = _Expected(_values(made, done.outputs, tensor), where, done.written[operand])
            if twice.status == "ok" and done.outputs[operand].tobytes() != twice.outputs[operand].tobytes():
                adds.append(name)
        if not expected:
            raise NoReference("the default configuration writes no tensor that is an argument: name it in outputs")
        if adds:
            self.notes.append(
                f"a second call leaves other values in {', '.join(adds)}: whoever times calls in a loop must give them "
                "back what they held (reset_to_zero= or restore_value= of @triton.autotune); here each run has its own"
            )
        return expected

    def _default_run(self) -> tuple[CompiledCandidate, Emulation]:
        """Of the first default configuration that the device can launch."""
        reason = ""
        for k, schedule in enumerate(self.defaults):
            shown = ", ".join(f"{name}={value}" for name, value in schedule.items)
            try:
                made = self.compile(schedule)
            except NotLaunched as error:
                reason = reason or f"{shown}: {error.reason}"
                continue
            done = self._run(made)
            if done.status != "ok":
                raise NoReference(f"the default configuration ({shown}) is wrong by itself: {done.reason}")
            which = "the default configuration" if k == 0 else f"configuration {k + 1} of those listed"
            self.against = self.against or f"{which} ({shown})"
            if k:
                self.notes.append(f"the first {k} listed cannot be launched ({reason})")
            return made, done
        raise NoReference(
            f"the default configuration cannot be launched ({reason}): name another default, or give a reference"
        )

    def _compared(self, made: CompiledCandidate, done: Emulation) -> tuple[float, str]:
        """The largest error over its tolerance, and what is wrong, if anything."""
        worst = 0.0
        tensors = dict(self.call.tensors())
        for name, expected in (self._expected or {}).items():
            tensor = tensors[name]
            if expected.written is not None:
                reason = _other_part(name, expected.written, done.written[_operand(made, tensor)])
                if reason:
                    return math.inf, reason
            found = _values(made, done.outputs, tensor)
            error, place = _error(found, expected, self._tolerance(tensor, expected))
            if not error <= 1:
                where = ", ".join(map(str, place))
                return error, (
                    f"element ({where}) of {name} is {found[place]:g}, and {self.against} gives "
                    f"{expected.values[place]:g}: {error:.3g} times what is allowed"
                )
            worst = max(worst, error)
        return worst, ""

    def _tolerance(self, tensor: torch.Tensor, expected: _Expected) -> FloatArray:
        if self.tolerance is not None:
            relative, absolute = self.tolerance
        else:
            relative = _RELATIVE.get(tensor.dtype, _RELATIVE_OF_8_BITS if tensor.dtype.is_floating_point else 0.0)
            counted = expected.values[expected.where & np.isfinite(expected.values)]
            absolute = relative * float(np.sqrt(np.mean(counted**2))) if counted.size else 0.0
        allowed: FloatArray = relative * np.abs(expected.values) + absolute
        return allowed


def _operand(made: CompiledCandidate, tensor: torch.Tensor) -> str:
    """The name of the array of the launch that the tensor lies in; "" for none."""
    place = tensor.untyped_storage().data_ptr()
    return next((name for name, s in made.arguments.tensors.items() if s.data_ptr() == place), "")


def _values(made: CompiledCandidate, outputs: Mapping[str, Array], tensor: torch.Tensor) -> FloatArray:
    """What the tensor holds after the launch."""
    content = outputs[_operand(made, tensor)].reshape(-1).view(np.uint8)
    flat = torch.from_numpy(content.copy()).view(tensor.dtype)
    values: FloatArray = flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).double().numpy()
    return values


def _written(made: CompiledCandidate, done: Emulation, tensor: torch.Tensor) -> BoolArray:
    """Of each element of the tensor, whether the launch has written it."""
    flags = done.written.get(_operand(made, tensor))
    if flags is None:
        return np.zeros(tuple(tensor.shape), np.bool_)
    each = tensor.element_size()
    first = flags[each * tensor.storage_offset() :]
    strides = tuple(each * n for n in tensor.stride())
    return np.asarray(np.lib.stride_tricks.as_strided(first, (*tensor.shape, each), (*strides, 1)).any(axis=-1))


def _other_part(name: str, expected: Flags, found: Flags) -> str:
    missing, more = int(np.count_nonzero(expected & ~found)), int(np.count_nonzero(found & ~expected))
    if missing:
        whole = int(np.count_nonzero(expected))
        return (
            f"it leaves {missing:,} of the {whole:,} bytes of {name} unwritten that the default configuration writes: "
            "after another configuration they would hold what that one wrote"
        )
    return f"it writes {more:,} bytes of {name} that the default configuration does not write" if more else ""


def _error(found: FloatArray, expected: _Expected, allowed: FloatArray) -> tuple[float, tuple[int, ...]]:
    """The largest error over what is allowed, and where."""
    with np.errstate(invalid="ignore", divide="ignore"):
        off = np.abs(found - expected.values)
        error = np.where(off == 0, 0.0, off / allowed)
    both = (np.isnan(found) & np.isnan(expected.values)) | (found == expected.values) | ~expected.where
    error = np.where(both, 0.0, np.where(np.isnan(error), np.inf, error))
    place = np.unravel_index(int(np.argmax(error)), error.shape) if error.size else ()
    return float(error.max(initial=0.0)), tuple(int(k) for k in place)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and np.array_equal(storage_bytes(a.untyped_storage()), storage_bytes(b.untyped_storage()))
