"""Runs a submission on CPU tensors, its launches in the emulator, and compares it with the task's reference."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from autosched.judge.result import CaseResult, Cheat, SubmissionResult, SubmissionStatus
from autosched.judge.task import Case, Task, TaskError, as_float64, load
from autosched.judge.torch_operators import TorchOperators
from autosched.triton.described import LaunchFailed
from autosched.triton.session import Session, emulated
from autosched.verify.launch_plan import QUICK, THOROUGH
from autosched.verify.oracle import Comparison
from measurements.emulator.findings import FindingKind
from measurements.files.text import one_line
from search_spaces.hardware.devices import Device

_SEEDS = (1, 2)
# Norm of the error over that of the reference, by the type of the output; of f32 so that TF32 passes.
_TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}
_EIGHT_BITS = 0.1
_RACES = {FindingKind.GLOBAL_RACE, FindingKind.SHARED_RACE}
_BOUNDS = {
    FindingKind.OUT_OF_BOUNDS_GLOBAL, FindingKind.OUT_OF_BOUNDS_SHARED, FindingKind.OUT_OF_BOUNDS_LOCAL
}  # fmt: skip


class _Unproven(Exception):
    """What the submission needs cannot be judged here."""


@dataclass
class _Seen:
    """What came of all cases so far."""

    cases: list[CaseResult] = field(default_factory=list)
    reasons: dict[SubmissionStatus, list[str]] = field(default_factory=dict)
    cheats: dict[Cheat, str] = field(default_factory=dict)

    def add(self, status: SubmissionStatus, reason: str) -> None:
        known = self.reasons.setdefault(status, [])
        if reason not in known:
            known.append(reason)


def judge(
    submission: Path, task: Task, device: Device, *, full: bool = False, tolerance: float = 0.0
) -> SubmissionResult:
    """Judge a submission by emulating what it launches on every case of a task.

    Args:
        submission: The file, which is imported and run: give it a process of its own (``run_judge``).
        task: Cases, each with inputs and a reference.
        device: The GPU that kernels are compiled for.
        full: Whether each launch runs in several orders of blocks and threads, and once more.
        tolerance: A relative error; 0 for what the type of the output allows.

    Returns:
        One status with its reasons; what the submission raises is one of them.

    Raises:
        TaskError: The submission is none.
        HostFailure: This machine cannot emulate.
    """
    seen = _Seen()
    module: ModuleType | None = None
    plan = THOROUGH if full else QUICK
    with _no_extensions():
        for case in task.cases:
            outputs = []
            call: Callable[[Any], Any] | None = None
            for seed in _SEEDS[:1] if case.uneven else _SEEDS:
                try:
                    with emulated(device, plan=plan, check=False) as session:
                        case.prepare()
                        wanted = _reference(case, seed)
                        if module is None:
                            module = load(submission, "submission")
                        if call is None:
                            call = task.call(module)
                        output = _case(case, seed, call, session, seen, wanted, tolerance)
                        outputs.append((wanted.output, output))
                except (LaunchFailed, _Unproven) as error:
                    seen.add(SubmissionStatus.UNPROVEN, one_line(str(error)))
                except (TaskError, KeyboardInterrupt):
                    raise
                except MemoryError:
                    seen.add(SubmissionStatus.OUT_OF_MEMORY, "it needs more memory than it may have")
                except BaseException as error:  # a submission may raise what it likes
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    said = one_line(str(error))[:300]
                    if "can't allocate memory" in said:  # torch's own error
                        seen.add(SubmissionStatus.OUT_OF_MEMORY, said)
                        continue
                    seen.add(
                        SubmissionStatus.FAILED,
                        f"{type(error).__name__}: {said} ({Path(last.filename).name}:{last.lineno})",
                    )
            _constant(outputs, seen)
    return _verdict(seen)


@dataclass(frozen=True)
class _Wanted:
    """What the reference makes of a case: its output, in float64 where it can, the operators of torch that it takes,
    and which of its inputs it returns."""

    output: Any
    operators: set[str]
    returned: set[int]


def _returned(inputs: Any, output: Any) -> set[int]:
    """Return the positions of the inputs that are the output, or a part of it."""
    results = {t.data_ptr() for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.numel()}
    leaves = enumerate(tree_leaves(inputs))
    return {k for k, leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.data_ptr() in results}


def _reference(case: Case, seed: int) -> _Wanted:
    values = case.inputs(seed)
    with TorchOperators() as operators, torch.no_grad():
        plain = case.reference(values)
    returned = _returned(values, plain)
    try:
        with torch.no_grad():
            expected = case.reference(as_float64(case.inputs(seed)))
    except Exception:  # a reference that insists on its types
        expected = plain
    return _Wanted(as_float64(expected), set(operators.names), returned)


def _case(
    case: Case,
    seed: int,
    call: Callable[[Any], Any],
    session: Session,
    seen: _Seen,
    wanted: _Wanted,
    tolerance: float,
) -> Any:
    expected = wanted.output
    inputs = case.inputs(seed)
    tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    buffers = {
        t.data_ptr() for t in tensors if session.storages.defined(t.untyped_storage()) is not None
    }  # for outputs
    before = _copied(inputs)
    launches = len(session.launches)
    with TorchOperators() as operators, torch.no_grad():
        output = call(inputs)
    launched = session.launches[launches:]
    error, limit = _relative_error(output, expected, tolerance)
    accepts = _accepts(case, before, output, expected)
    name = f"{case.name}, seed {seed}"
    compared = _compared(name, error, limit, accepts)
    verdict, lines = session.verdict(compared), session.fault_lines()
    for fault, line in zip(verdict.emulation.faults, lines, strict=True):
        kind = fault.kind
        status = (
            SubmissionStatus.RACING
            if kind in _RACES
            else SubmissionStatus.OUT_OF_BOUNDS
            if kind in _BOUNDS
            else SubmissionStatus.FAULTY
        )
        seen.add(status, one_line(line))
    seen.cases.append(CaseResult(name, len(launched), error, limit, accepts, tuple(lines), tuple(operators.names)))
    _cheats(seen, session, bool(launched), output, expected, set(operators.names), wanted.operators, accepts)
    # What the caller gave may be the output, where the reference returns it or it holds no values; else it stays.
    returned = _returned(inputs, output)
    for k, (a, b) in enumerate(zip(tree_leaves(inputs), tree_leaves(before), strict=True)):
        if not isinstance(a, torch.Tensor) or a.data_ptr() in buffers or k in wanted.returned:
            continue
        if k in returned:
            seen.cheats.setdefault(Cheat.INPUT_RETURNED, f"it returns input {k} itself as the output")
        elif not _same(a, b):
            seen.cheats.setdefault(Cheat.INPUTS_CHANGED, f"input {k} holds other values after the call")
    if compared.reason:
        seen.add(SubmissionStatus.WRONG, compared.reason)
    elif seed == _SEEDS[0] and not seen.cheats:
        output = _copied(output)
        _refilled(case, call, inputs, output, seen, tolerance)
    return output


def _compared(name: str, error: float | None, limit: float, accepts: bool | None) -> Comparison:
    """Return the output of a case, compared by the task: with its reference, then by its own check."""
    if error is None:
        return Comparison(None, "its output has not the shapes of the reference")
    worst = error / limit if limit else float(error > 0)
    if not error <= limit:
        return Comparison(worst, f"{name}: relative error {error:.3g} against float64, and {limit:g} is allowed")
    return Comparison(worst, f"{name}: the task's own check refuses it" if accepts is False else "")


def _refilled(case: Case, call: Callable[[Any], Any], inputs: Any, output: Any, seen: _Seen, tolerance: float) -> None:
    """Call once more with other values in the same buffers: what was kept by address, or by identity, is wrong now."""
    seed = max(_SEEDS) + 1
    expected = _reference(case, seed).output
    values = case.inputs(seed)
    for a, b in zip(tree_leaves(inputs), tree_leaves(values), strict=True):
        if isinstance(a, torch.Tensor):
            if a.shape != b.shape or a.dtype != b.dtype:
                return
            a.copy_(b)
    with torch.no_grad():
        again = call(inputs)
    error, limit = _relative_error(again, expected, tolerance)
    if error is not None and error <= limit:
        return
    both = zip(tree_leaves(again), tree_leaves(output), strict=False)
    what = "called again with the same buffers refilled, it returns"
    if all(_same(a, b) for a, b in both if isinstance(a, torch.Tensor)):
        seen.cheats.setdefault(Cheat.KEPT_OUTPUT, f"{what} what it did before")
    else:
        seen.add(SubmissionStatus.WRONG, f"{case.name}: {what} other values than the reference")


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
        seen.cheats.setdefault(Cheat.NO_LAUNCH, "it launches no kernel of its own")
    if reference_operators and reference_operators <= operators:
        what = ", ".join(sorted(reference_operators))
        seen.cheats.setdefault(Cheat.TORCH, f"torch computes all that the reference does: {what}")
    tensors = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.numel()]
    for tensor in tensors:
        flags = session.storages.defined(tensor.untyped_storage())
        if flags is not None and not flags.any():
            seen.cheats.setdefault(Cheat.OUTPUT_NOT_WRITTEN, "it returns memory that nobody wrote")
        elif flags is not None and not flags.all():
            seen.add(SubmissionStatus.WRONG, "a part of its output was never written")
    wanted = [t for t in tree_leaves(expected) if isinstance(t, torch.Tensor)]
    zeros = bool(tensors) and all(not t.any() for t in tensors) and any(bool(t.any()) for t in wanted)
    if zeros and accepts:
        seen.cheats.setdefault(Cheat.ZEROS, "its output is all zeros, which the task's absolute tolerance lets pass")


def _constant(outputs: list[tuple[Any, Any]], seen: _Seen) -> None:
    """Check that inputs of another seed lead to another output, where they do in the reference."""
    if len(outputs) < 2 or Cheat.OUTPUT_NOT_WRITTEN in seen.cheats:
        return
    (first, a), (second, b) = outputs[:2]
    tensors = [t for t in tree_leaves(a) if isinstance(t, torch.Tensor) and t.numel()]
    others = [t for t in tree_leaves(b) if isinstance(t, torch.Tensor) and t.numel()]
    wanted = zip(tree_leaves(first), tree_leaves(second), strict=True)
    differ = any(isinstance(p, torch.Tensor) and not _same(p, q) for p, q in wanted)
    if differ and tensors and len(tensors) == len(others) and all(map(_same, tensors, others)):
        seen.cheats.setdefault(Cheat.CONSTANT_OUTPUT, "its output is the same for other inputs")


def _verdict(seen: _Seen) -> SubmissionResult:
    order = (
        SubmissionStatus.FAILED,
        SubmissionStatus.OUT_OF_MEMORY,
        SubmissionStatus.OUT_OF_BOUNDS,
        SubmissionStatus.RACING,
        SubmissionStatus.FAULTY,
        SubmissionStatus.WRONG,
        SubmissionStatus.UNPROVEN,
    )
    reasons = [reason for status in order for reason in seen.reasons.get(status, [])]
    # A cheat explains a fault of the numbers; a crash explains more than both.
    broken = next((s for s in order[:2] if s in seen.reasons), None)
    status = broken or (
        SubmissionStatus.CHEATING
        if seen.cheats
        else next((s for s in order if s in seen.reasons), SubmissionStatus.RIGHT)
    )
    return SubmissionResult(status, (*seen.cheats.values(), *reasons), tuple(seen.cheats), tuple(seen.cases))


def _accepts(case: Case, inputs: Any, output: Any, expected: Any) -> bool | None:
    if case.accepts is None:
        return None
    try:
        with torch.no_grad():
            return case.accepts(inputs, output, expected)
    except Exception:  # shapes or types that its check does not take
        return False


def _relative_error(output: Any, expected: Any, tolerance: float) -> tuple[float | None, float]:
    """Return the largest over all output tensors, with the limit of that one's type."""
    tensors = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor)]
    wanted = [t for t in tree_leaves(expected) if isinstance(t, torch.Tensor)]
    if (
        not wanted
        or len(tensors) != len(wanted)
        or any(a.shape != b.shape for a, b in zip(tensors, wanted, strict=True))
    ):
        return None, tolerance
    worst, limit = -1.0, tolerance
    for a, b in zip(tensors, wanted, strict=True):
        allowed = tolerance or (_TOLERANCES.get(a.dtype, _EIGHT_BITS) if a.is_floating_point() else 0.0)
        a, b = torch.nan_to_num(a.double(), nan=1e300), torch.nan_to_num(b.double(), nan=1e300)
        size = float(torch.linalg.vector_norm(b))
        error = float(torch.linalg.vector_norm(a - b)) / size if size else float(torch.linalg.vector_norm(a))
        if error - allowed > worst - limit:
            worst, limit = error, allowed
    return worst, limit


def _copied(value: Any) -> Any:
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a.double()), torch.nan_to_num(b.double())))


@contextlib.contextmanager
def _no_extensions() -> Iterator[None]:
    """CUDA C++ is compiled by other means than Triton: it is not judged, and must not be built."""
    import torch.utils.cpp_extension as extension

    def refused(*_: Any, **__: Any) -> Any:
        raise _Unproven("it builds a C++ or CUDA extension, and only Triton kernels are judged")

    names = ("load", "load_inline")
    before = {name: getattr(extension, name) for name in names}
    try:
        for name in names:
            setattr(extension, name, refused)
        yield
    finally:
        for name, theirs in before.items():
            setattr(extension, name, theirs)
