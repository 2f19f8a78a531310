"""Operators on CPU tensors compute a formula in torch, or run the selected kernel in the emulator."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from autosched.dispatch import call_log
from autosched.dispatch.call_signature import TYPES, CallPlan
from autosched.dispatch.database import Database
from autosched.dispatch.functions import Source
from autosched.torch import formulas
from autosched.torch.plans import PLANS
from measurements.emulator import Emulation, emulate
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem


@dataclass
class _Emulated:
    """Context of ``emulated``: database, device, the kernels selected so far, and the time limit in CPU seconds."""

    database: Database
    device: str
    time_limit: float
    kernels: dict[Problem, GeneratedKernel] = field(default_factory=dict)


_lock = threading.Lock()
_stack: list[_Emulated] = []


@contextmanager
def emulated(database: Source, device: str = "h200", *, time_limit: float = 60.0) -> Iterator[None]:
    """Within this context, run operators on CPU tensors in the emulator. The context applies to all threads.

    An operator runs the kernel that ``database`` selects for ``device``. It raises RuntimeError if the kernel has a
    finding, crashes or does not finish, and ValueError for a problem without a kernel. It raises NoSchedule in the same
    cases as ``Database.look_up``. If the database selects the vendor's library, the operator computes its formula in
    torch.

    Args:
        database: Database of tuned schedules.
        device: Name of the GPU.
        time_limit: CPU seconds that each launch may take.
    """
    opened = database if isinstance(database, Database) else Database(database)
    emulation = _Emulated(opened, device, time_limit)
    with _lock:
        _stack.append(emulation)
    try:
        yield
    finally:
        with _lock:
            _stack.remove(emulation)


def compute(name: str, *arguments: Any) -> Any:
    """Return the result of an operator on CPU tensors."""
    formula = getattr(formulas, name)
    if call_log.active():
        with suppress(ValueError):  # no kernel supports the problem: compute the formula
            call_log.add(PLANS[name](*arguments).problem)
    if not _stack:
        return formula(*arguments)
    plan = PLANS[name](*arguments)
    kernel, time_limit = emulated_kernel(plan.problem)
    if kernel is None:
        return formula(*arguments)
    return _emulate(kernel, plan, [a for a in arguments if isinstance(a, torch.Tensor)], time_limit)


def is_emulated() -> bool:
    """Return True if a context of ``emulated`` is active."""
    return bool(_stack)


def emulated_kernel(problem: Problem) -> tuple[GeneratedKernel | None, float]:
    """Return the kernel that the innermost ``emulated`` context selects for a problem, and the context's time limit.

    Args:
        problem: Problem of the call.

    Returns:
        The kernel, and the CPU seconds that each launch may take. The kernel is None if no context is active, or if
        the database selects the vendor's library.
    """
    setting = _stack[-1] if _stack else None
    if setting is None:
        return None, 0.0
    kernel = setting.kernels.get(problem)
    if kernel is None:
        kernel = setting.database.look_up(problem, setting.device).kernel
        if kernel is not None:
            setting.kernels[problem] = kernel
    return kernel, setting.time_limit


def check_run(operator: str, emulation: Emulation) -> None:
    """Raise RuntimeError if a run has a finding, crashed or did not finish."""
    if not emulation.ok:
        detail = f": {emulation.findings[0].message}" if emulation.findings else ""
        raise RuntimeError(f"{operator} in the emulator: {emulation.status}{detail} {emulation.reason}".rstrip())


def _emulate(kernel: GeneratedKernel, plan: CallPlan, tensors: Sequence[Any], time_limit: float) -> Any:
    operands = {o.name: o for o in plan.problem.operands()}
    inputs = {name: _stored(operands[name], t) for name, t in zip(plan.operands, tensors, strict=True)}
    emulation = emulate(kernel, inputs, time_limit=time_limit)
    check_run(plan.problem.operator, emulation)
    kind = tensors[0].dtype if plan.out_type is None else _TORCH[plan.out_type]
    flat = torch.from_numpy(np.ascontiguousarray(emulation.outputs["out"]).view(np.uint8).reshape(-1).copy())
    return flat.view(kind).reshape(plan.out_shape)


def _stored(operand: Operand, tensor: Any) -> Array:
    """Return the memory of a dense tensor in the operand's shape and storage type.

    A column-major matrix is stored as its transpose.
    """
    memory = torch.as_strided(tensor, (tensor.numel(),), (1,), tensor.storage_offset())
    raw: Array = memory.view(torch.uint8).numpy()
    return raw.view(operand.dtype.storage).reshape(operand.shape)


_TORCH = {ours: getattr(torch, theirs) for theirs, ours in TYPES.items()}
