"""Run a submission on CPU tensors with emulated launches, and compare its outputs with the task's reference."""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from autosched.judge.result import CaseResult, Cheat, SubmissionResult, SubmissionStatus
from autosched.judge.task import Case, Task, TaskError, as_float64, load
from autosched.judge.torch_operators import TorchOperators
from autosched.triton.described import LaunchFailed
from autosched.triton.session import Session, emulated
from autosched.triton.tensor_errors import dtype_of, numbers_of, tensor_errors
from autosched.verify.launch_plan import QUICK, LaunchPlan
from autosched.verify.launches import run_of_program, verdict_of_program
from autosched.verify.oracle import UNVERIFIED, Comparison
from autosched.verify.planned_run import PlannedRun, make_runs, results
from autosched.verify.run import Run
from autosched.verify.verdict import FAILED_PROGRAM, OUT_OF_MEMORY, Verdict
from measurements.files.text import one_line
from measurements.trials.comparison import magnitudes
from measurements.trials.tolerance import checked_tolerance
from search_spaces.hardware.devices import Device

_SEEDS = (1, 2)
# Allowed ratio of the error's norm to the reference's norm, by output type. The limit for f32 allows TF32.
_TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}
_EIGHT_BITS = 0.1


class _Unverified(Exception):
    """This machine cannot run the submission, so the submission cannot be judged."""


@dataclass
class _Seen:
    """Results that the runs of a submission have collected so far."""

    cases: list[CaseResult] = field(default_factory=list)
    reasons: dict[SubmissionStatus, list[str]] = field(default_factory=dict)
    cheats: dict[Cheat, str] = field(default_factory=dict)

    def add(self, status: SubmissionStatus, reason: str) -> None:
        known = self.reasons.setdefault(status, [])
        if reason not in known:
            known.append(reason)


def judge(
    submission: Path, task: Task, device: Device, *, plan: LaunchPlan = QUICK, tolerance: float = 0.0
) -> SubmissionResult:
    """Judge a submission by emulating its launches for every case of a task.

    Args:
        submission: File that is imported and run. Call this function only in a separate process (``run_judge``).
        task: Cases, each with inputs and a reference.
        device: The GPU that kernels are compiled for.
        plan: Emulated runs of each launch.
        tolerance: Allowed relative error; 0 for the limit of the output's type.

    Returns:
        The status of the submission and its reasons. An exception of the submission also gives a status.

    Raises:
        ToleranceError: The tolerance is negative or not finite.
        TaskError: The file is not a submission for the task.
        HostFailure: This machine cannot run the emulator.
    """
    judging = _Judging(submission, task, device, plan, checked_tolerance(tolerance, "tolerance"))
    with _no_extensions():
        runs = list(results(make_runs(judging.planned(), suppressions=plan.suppressions)))
    return _result(judging.seen, runs)


@dataclass
class _Judging:
    """The runs of a submission: each case with each seed, and once more with new values in the same buffers."""

    submission: Path
    task: Task
    device: Device
    plan: LaunchPlan
    tolerance: float
    seen: _Seen = field(default_factory=_Seen)
    _module: ModuleType | None = None

    def planned(self) -> Iterator[PlannedRun]:
        """Yield the runs. While a run executes, a session emulates its launches."""
        for case in self.task.cases:
            runs: list[_CaseRun] = []
            call: Callable[[Any], Any] | None = None
            for seed in _SEEDS[:1] if case.uneven else _SEEDS:
                with emulated(self.device, plan=self.plan, check=False) as session:
                    run = _CaseRun(case, seed, session, self.seen, self.tolerance, call)
                    yield PlannedRun(run.name, partial(self._guarded, run, partial(self._first_call, run)))
                    call = run.call
                    if run.is_right and seed == _SEEDS[0] and not self.seen.cheats:
                        yield PlannedRun(f"{run.name}, buffers refilled", partial(self._guarded, run, run.refilled))
                if run.returned:
                    runs.append(run)
            _constant([(run.expected.output, run.output) for run in runs], self.seen)

    def _first_call(self, run: _CaseRun) -> Verdict:
        run.case.prepare()
        run.expected = _reference(run.case, run.seed)
        if self._module is None:
            self._module = load(self.submission, "submission")
        if run.call is None:
            run.call = self.task.call(self._module)
        return run.first()

    def _guarded(self, run: _CaseRun, judge: Callable[[], Verdict | None]) -> Run | None:
        """Execute a run, and convert an exception of the submission to a verdict."""
        try:
            verdict = judge()
        except (LaunchFailed, _Unverified) as error:
            verdict = Verdict.not_launched(UNVERIFIED, one_line(str(error)))
        except (TaskError, KeyboardInterrupt):
            raise
        except MemoryError:
            verdict = Verdict.not_launched(OUT_OF_MEMORY, "the submission exceeds its memory limit")
        except BaseException as error:  # third-party code may raise any exception
            last = traceback.extract_tb(error.__traceback__)[-1]
            message = one_line(str(error))[:300]
            if "can't allocate memory" in message:  # torch reports a failed allocation as RuntimeError
                verdict = Verdict.not_launched(OUT_OF_MEMORY, message)
            else:
                where = f"{Path(last.filename).name}:{last.lineno}"
                verdict = Verdict.not_launched(FAILED_PROGRAM, f"{type(error).__name__}: {message} ({where})")
        return None if verdict is None else run_of_program(verdict, run.seed, self.plan)


@dataclass(frozen=True)
class _Expected:
    """The reference's results for a case.

    ``output`` is in float64 if the reference supports it; otherwise ``exact`` is False and the output was rounded.
    ``operators`` are the torch operators that the reference calls. ``returned`` are the positions of inputs that the
    reference returns.
    """

    output: Any
    operators: set[str]
    returned: set[int]
    exact: bool = True


def _returned(inputs: Any, output: Any) -> set[int]:
    """Return the positions of inputs that have the same memory as a tensor of the output."""
    results = {t.data_ptr() for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.numel()}
    leaves = enumerate(tree_leaves(inputs))
    return {k for k, leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.data_ptr() in results}


def _reference(case: Case, seed: int) -> _Expected:
    values = case.inputs(seed)
    with TorchOperators() as operators, torch.no_grad():
        plain = case.reference(values)
    returned = _returned(values, plain)
    expected, exact = plain, False
    with contextlib.suppress(Exception), torch.no_grad():  # a reference that does not support float64 raises an error
        expected, exact = case.reference(as_float64(case.inputs(seed))), True
    return _Expected(as_float64(expected), set(operators.names), returned, exact)


@dataclass
class _CaseRun:
    """A call of the submission for a case with the inputs of one seed, and the comparison with the task's reference.

    Attributes:
        case: Inputs, reference and the task's own check.
        seed: Seed of the inputs.
        session: Emulates the launches.
        seen: Collects the results.
        tolerance: Allowed relative error; 0 for the limit of the output's type.
        call: The submitted function; None until the submission is loaded.
        expected: Outputs of the reference.
        output: Outputs of the submission.
        returned: True if the submission has returned.
        is_right: True if the output is correct.
    """

    case: Case
    seed: int
    session: Session
    seen: _Seen
    tolerance: float
    call: Callable[[Any], Any] | None
    expected: _Expected = field(default_factory=lambda: _Expected(None, set(), set()))
    output: Any = None
    returned: bool = False
    is_right: bool = False
    _inputs: Any = None

    @property
    def name(self) -> str:
        return f"{self.case.name}, seed {self.seed}"

    def first(self) -> Verdict:
        """Call the submission with new inputs; return the verdict on its launches and output."""
        assert self.call is not None
        case, session, seen, reference_output = self.case, self.session, self.seen, self.expected.output
        inputs = case.inputs(self.seed)
        tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
        buffers = {
            t.data_ptr() for t in tensors if session.storages.defined(t.untyped_storage()) is not None
        }  # inputs with undefined bytes are buffers for outputs
        before = _copied(inputs)
        launches = len(session.launches)
        with TorchOperators() as operators, torch.no_grad():
            output = self.call(inputs)
        launched = session.launches[launches:]
        with session.comparing():
            error, limit = _relative_error(output, self.expected, self.tolerance)
            accepts = _accepts(case, before, output, reference_output)
        compared = _compared(self.name, error, limit, accepts)
        verdict, lines = session.verdict(compared), session.fault_lines()
        for fault, line in zip(verdict.emulation.faults, lines, strict=True):
            seen.add(SubmissionStatus.of_fault(fault.kind), one_line(line))
        names = tuple(operators.names)
        seen.cases.append(CaseResult(self.name, len(launched), error, limit, accepts, tuple(lines), names))
        _cheats(seen, session, bool(launched), output, reference_output, set(names), self.expected.operators, accepts)
        # The output may be an argument only if the reference also returns that argument, or if the argument was
        # uninitialised. Other arguments must not change.
        returned = _returned(inputs, output)
        for k, (a, b) in enumerate(zip(tree_leaves(inputs), tree_leaves(before), strict=True)):
            if not isinstance(a, torch.Tensor) or a.data_ptr() in buffers or k in self.expected.returned:
                continue
            if k in returned:
                seen.cheats.setdefault(Cheat.INPUT_RETURNED, f"the output is input {k} itself")
            elif not _same(a, b):
                seen.cheats.setdefault(Cheat.INPUTS_CHANGED, f"the call changes the values of input {k}")
        if compared.reason:  # reported even if launches have faults; the status then names the faults
            seen.add(SubmissionStatus.WRONG, compared.reason)
        self.is_right, self._inputs = not compared.reason, inputs
        self.output = _copied(output) if self.is_right and not seen.cheats else output
        self.returned = True
        return verdict

    def refilled(self) -> Verdict | None:
        """Call the submission again with new values in the same buffers, to detect results cached by address.

        Returns:
            The verdict; None if inputs of the next seed differ in shape or type.
        """
        assert self.call is not None
        case, seen, launches = self.case, self.seen, len(self.session.launches)
        seed = max(_SEEDS) + 1
        expected = _reference(case, seed)
        for a, b in zip(tree_leaves(self._inputs), tree_leaves(case.inputs(seed)), strict=True):
            if isinstance(a, torch.Tensor):
                if a.shape != b.shape or a.dtype != b.dtype:
                    return None
                a.copy_(b)
        with torch.no_grad():
            second = self.call(self._inputs)
        error, limit = _relative_error(second, expected, self.tolerance)
        compared = _compared(f"{case.name}, called again with the same buffers refilled", error, limit, None)
        if compared.reason:
            tensor_pairs = zip(tree_leaves(second), tree_leaves(self.output), strict=False)
            condition = "called again with the same buffers refilled, the submission returns"
            if all(_same(a, b) for a, b in tensor_pairs if isinstance(a, torch.Tensor)):
                seen.cheats.setdefault(Cheat.KEPT_OUTPUT, f"{condition} its previous output")
            else:
                seen.add(SubmissionStatus.WRONG, f"{case.name}: {condition} values that differ from the reference")
        return verdict_of_program([launch.verdict for launch in self.session.launches[launches:]], compared)


def _compared(name: str, error: float | None, limit: float, accepts: bool | None) -> Comparison:
    """Compare the output of a case with the task's reference, then with the task's own check."""
    if error is None:
        return Comparison(None, "the output's shapes differ from the reference's")
    worst = error / limit if limit else float(error > 0)
    if not error <= limit:
        return Comparison(worst, f"{name}: relative error {error:.3g} against float64 exceeds {limit:g}")
    return Comparison(worst, f"{name}: the task's own check rejects the output" if accepts is False else "")


def _cheats(
    seen: _Seen,
    session: Session,
    launched: bool,
    output: Any,
    expected: Any,
    operators: set[str],
    reference_operators: set[str],
    accepts: bool | None,
) -> None:
    if not launched:
        seen.cheats.setdefault(Cheat.NO_LAUNCH, "the submission launches no Triton kernel")
    if reference_operators and reference_operators <= operators:
        names = ", ".join(sorted(reference_operators))
        seen.cheats.setdefault(Cheat.TORCH, f"torch operators compute the whole result, as in the reference: {names}")
    tensors = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.numel()]
    for tensor in tensors:
        flags = session.storages.defined(tensor.untyped_storage())
        if flags is not None and not flags.any():
            seen.cheats.setdefault(Cheat.OUTPUT_NOT_WRITTEN, "the output is memory that was never written")
        elif flags is not None and not flags.all():
            seen.add(SubmissionStatus.WRONG, "part of the output was never written")
    expected_tensors = [t for t in tree_leaves(expected) if isinstance(t, torch.Tensor)]
    zeros = bool(tensors) and all(not t.any() for t in tensors) and any(bool(t.any()) for t in expected_tensors)
    if zeros and accepts:
        seen.cheats.setdefault(
            Cheat.ZEROS, "the output is all zeros, which pass only because of the task's absolute tolerance"
        )


def _constant(outputs: list[tuple[Any, Any]], seen: _Seen) -> None:
    """Report an output that stays the same for the inputs of another seed although the reference's output changes."""
    if len(outputs) < 2 or Cheat.OUTPUT_NOT_WRITTEN in seen.cheats:
        return
    (first, a), (second, b) = outputs[:2]
    tensors = [t for t in tree_leaves(a) if isinstance(t, torch.Tensor) and t.numel()]
    second_tensors = [t for t in tree_leaves(b) if isinstance(t, torch.Tensor) and t.numel()]
    expected_pairs = zip(tree_leaves(first), tree_leaves(second), strict=True)
    differ = any(isinstance(p, torch.Tensor) and not _same(p, q) for p, q in expected_pairs)
    if differ and tensors and len(tensors) == len(second_tensors) and all(map(_same, tensors, second_tensors)):
        seen.cheats.setdefault(Cheat.CONSTANT_OUTPUT, "the output is the same for other inputs")


def _result(seen: _Seen, runs: Sequence[Run]) -> SubmissionResult:
    """Combine all runs into one result: failed runs, findings of launches, wrong outputs and cheats."""
    for run in runs:
        if (status := SubmissionStatus.of_verdict(run.status)) is not None:
            seen.add(status, run.reason)
    order = (
        SubmissionStatus.FAILED,
        SubmissionStatus.OUT_OF_MEMORY,
        SubmissionStatus.OUT_OF_BOUNDS,
        SubmissionStatus.RACING,
        SubmissionStatus.FAULTY,
        SubmissionStatus.WRONG,
        SubmissionStatus.UNVERIFIED,
    )
    reasons = [reason for status in order for reason in seen.reasons.get(status, [])]
    # A crash explains cheats and wrong numbers, and a cheat explains wrong numbers: report the crash, then the cheat.
    broken = next((s for s in order[:2] if s in seen.reasons), None)
    status = broken or (
        SubmissionStatus.CHEATING
        if seen.cheats
        else next((s for s in order if s in seen.reasons), SubmissionStatus.RIGHT)
    )
    statuses = {run.name: run.status for run in runs}
    return SubmissionResult(status, (*seen.cheats.values(), *reasons), tuple(seen.cheats), tuple(seen.cases), statuses)


def _accepts(case: Case, inputs: Any, output: Any, expected: Any) -> bool | None:
    if case.accepts is None:
        return None
    try:
        with torch.no_grad():
            return case.accepts(inputs, output, expected)
    except Exception:  # the task's check fails for these shapes or types: the output is rejected
        return False


def _relative_error(output: Any, expected: _Expected, tolerance: float) -> tuple[float | None, float]:
    """Return the largest relative error of an output tensor, with the limit for that tensor's type."""
    tensors = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor)]
    expected_tensors = [t for t in tree_leaves(expected.output) if isinstance(t, torch.Tensor)]
    if (
        not expected_tensors
        or len(tensors) != len(expected_tensors)
        or any(a.shape != b.shape for a, b in zip(tensors, expected_tensors, strict=True))
    ):
        return None, tolerance
    worst, limit = -1.0, tolerance
    for a, b in zip(tensors, expected_tensors, strict=True):
        allowed = tolerance or (_TOLERANCES.get(a.dtype, _EIGHT_BITS) if a.is_floating_point() else 0.0)
        error = _error_norm(a, b, allowed, expected.exact)
        if error - allowed > worst - limit:
            worst, limit = error, allowed
    return worst, limit


def _error_norm(output: torch.Tensor, expected: torch.Tensor, allowed: float, exact: bool) -> float:
    """Return the norm of the error divided by the norm of the reference.

    The result is infinite if an output is wrongly finite, infinite or NaN.
    """
    if output.is_complex() or expected.is_complex():
        output, expected = (torch.view_as_real(t.to(torch.complex128)) for t in (output, expected))
    finite = torch.isfinite(output.double()) & torch.isfinite(expected.double())
    if not finite.all():
        values, limits = numbers_of(output[~finite]), expected[~finite].double().numpy()
        rounded_to = None if exact else dtype_of(output.dtype)
        sizes = np.abs(limits) if rounded_to is None else magnitudes(limits, rounded_to)
        if tensor_errors(output.dtype, values, limits, allowed * sizes, rounded_to=rounded_to).wrong.any():
            return math.inf
    output, expected = output[finite].double(), expected[finite].double()
    scale = max((float(t.abs().max()) for t in (output, expected) if t.numel()), default=0.0)
    if scale == 0:
        return 0.0
    # scale first, because squares of large values may overflow
    size = float(torch.linalg.vector_norm(expected / scale))
    error = float(torch.linalg.vector_norm(output / scale - expected / scale))
    return error / size if size else scale * error


def _copied(value: Any) -> Any:
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a.double()), torch.nan_to_num(b.double())))


@contextlib.contextmanager
def _no_extensions() -> Iterator[None]:
    """Within the context, raise an error if the submission builds a C++ or CUDA extension, which cannot be judged."""
    import torch.utils.cpp_extension as extension

    def refused(*_: Any, **__: Any) -> Any:
        raise _Unverified("the submission builds a C++ or CUDA extension, but only Triton kernels are judged")

    names = ("load", "load_inline")
    before = {name: getattr(extension, name) for name in names}
    try:
        for name in names:
            setattr(extension, name, refused)
        yield
    finally:
        for name, original in before.items():
            setattr(extension, name, original)
