"""Redirect a model's own torch calls to tuned kernels."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from autosched.dispatch import call_log, functions
from autosched.dispatch.database import Database, NoSchedule
from autosched.dispatch.functions import Source
from autosched.reporting.formatting import one_line
from autosched.torch import ops
from autosched.torch.plans import PLANS
from measurements.trials.problem_key import problem_of
from search_spaces.operators.problem import Problem


class _Unsupported(Exception):
    """The call cannot be expressed as an operator of autosched. The message is the reason."""


@dataclass(frozen=True)
class _Request:
    """A torch call expressed as an operator of autosched, its tensors (None if omitted) and its options."""

    operator: str
    tensors: tuple[Any, ...]
    options: Mapping[str, Any]


def _matmul(a: Any, b: Any) -> _Request:
    return _Request("matmul", (a, b), {})


def _linear(x: Any, weight: Any, bias: Any = None) -> _Request:
    return _Request("matmul", (x, weight.T, bias), {})


def _softmax(x: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> _Request:
    if dim not in (-1, x.dim() - 1):
        raise _Unsupported("softmax along an axis other than the last")
    if dtype not in (None, x.dtype):
        raise _Unsupported("softmax with another result type")
    return _Request("softmax", (x,), {})


def _rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> _Request:
    _one_axis(x, normalized_shape, weight)
    return _Request("rmsnorm", (x, weight), {"eps": float(torch.finfo(x.dtype).eps if eps is None else eps)})


def _layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> _Request:
    _one_axis(x, normalized_shape, weight, bias)
    return _Request("layernorm", (x, weight, bias), {"eps": float(eps)})


def _one_axis(x: Any, normalized_shape: Any, *parameters: Any) -> None:
    if tuple(normalized_shape) != (x.shape[-1],):
        raise _Unsupported("a norm over more than the last axis")
    if any(p is None for p in parameters):
        raise _Unsupported("a norm without weight or bias")


_REQUESTS: Mapping[Any, Callable[..., _Request]] = {
    torch.mm: _matmul,
    torch.Tensor.mm: _matmul,
    torch.matmul: _matmul,
    torch.Tensor.matmul: _matmul,
    torch.Tensor.__matmul__: _matmul,
    functional.linear: _linear,
    functional.softmax: _softmax,
    torch.softmax: _softmax,
    torch.Tensor.softmax: _softmax,
    functional.rms_norm: _rms_norm,
    torch.rms_norm: _rms_norm,
    functional.layer_norm: _layer_norm,
}


class Calls(TorchFunctionMode):  # type: ignore[misc] # torch has no types here
    """Counts of the calls within one ``patch``. Hits are calls that ran a tuned kernel; misses are all other calls.

    ``hits`` maps problems to counts. ``misses`` maps (problem or function's name, reason) to counts.
    """

    def __init__(self, database: Database | None, device: str | None, exact: bool) -> None:
        super().__init__()
        self.hits: Counter[str] = Counter()
        self.misses: Counter[tuple[str, str]] = Counter()
        self._database = database
        self._device = device
        self._exact = exact
        self._lock = threading.Lock()
        # the reason why the call is a miss; "" for a hit
        self._known: dict[tuple[Any, ...], tuple[Problem | str, str]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        make_request = _REQUESTS.get(func)
        if make_request is None or torch.compiler.is_compiling():
            return func(*args, **keywords)
        name = getattr(func, "__name__", str(func)).strip("_")
        problem: Problem | str
        try:
            request = make_request(*args, **keywords)
            problem, why = self._decide(request)
        except (_Unsupported, TypeError, AttributeError) as error:
            # the call has arguments that the operator lacks, for example out=
            problem, why = name, str(error) if isinstance(error, _Unsupported) else "unsupported arguments"
        shown = problem if isinstance(problem, str) else problem.key()
        with self._lock:
            if why:
                self.misses[shown, why] += 1
            else:
                self.hits[shown] += 1
        if why and not isinstance(problem, str):  # log only misses, because the operator itself logs hits
            call_log.add(problem)
        if why:
            return func(*args, **keywords)
        return getattr(ops, request.operator)(*request.tensors, **request.options)

    def _decide(self, request: _Request) -> tuple[Problem | str, str]:
        """Return the problem of a call (or only the operator's name), and the reason why torch must compute it.

        The reason is "" if autosched handles the call.
        """
        tensors = [t for t in request.tensors if t is not None]
        signature = tuple((t.shape, t.stride(), t.dtype, t.device) for t in tensors)
        key = (request.operator, len(tensors), tuple(request.options.items()), signature)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._look_up(request, {t.device.type for t in tensors})
        return known

    def _look_up(self, request: _Request, devices: set[str]) -> tuple[Problem | str, str]:
        if not devices <= {"cuda", "cpu"} or len(devices) > 1:
            return request.operator, f"tensors on {', '.join(sorted(devices))}"
        try:
            problem: Problem = PLANS[request.operator](*request.tensors, **request.options).problem
        except ValueError as error:
            return request.operator, str(error)
        if self._database is None:
            return problem, "no database was given"
        try:
            self._database.look_up(problem, self._device, exact=self._exact)
        except NoSchedule:
            return problem, "the problem is not tuned"
        return problem, ""

    def summary(self) -> str:
        """Return hits and misses as text, most frequent first."""
        hits, misses = sum(self.hits.values()), sum(self.misses.values())
        lines = [f"{hits:,} of {hits + misses:,} calls ran tuned kernels"]
        lines += [f"  hit {count:,} x {_shown(problem)}" for problem, count in self.hits.most_common()]
        lines += [f"  miss {count:,} x {_shown(problem)}: {why}" for (problem, why), count in self.misses.most_common()]
        return "\n".join(lines)


def _shown(problem: str) -> str:
    """Return a problem's key in readable form, and a function's name unchanged."""
    return one_line(problem_of(problem)) if problem.startswith("{") else problem


def patch(database: Source | None, device: str | None = None, *, exact: bool = True) -> Calls:
    """Redirect calls of mm, matmul, linear, softmax, rms_norm and layer_norm within a block to tuned kernels.

    Use it as ``with patch(...) as calls:``. Torch still computes all other calls; they are counted, with the reason why
    they were not redirected. A redirected call on CPU tensors computes the operator's formula. In a block of
    ``emulated``, its kernel is emulated instead. Calls in code that ``torch.compile`` traces are not redirected: use
    the functions of ``autosched.torch`` in such code.

    Args:
        database: Database of tuned kernels. If None, no call is redirected. Use None to record calls with
            ``autosched.log_calls``, for example.
        device: Device of the trials. Default: this machine's GPU.
        exact: If True, redirect only problems in the database. If False, also redirect other problems, with a schedule
            from the nearest trial or the time model.

    Returns:
        A context manager that returns the counts of calls.

    Raises:
        StoreError: The database cannot be opened (a ValueError).
    """
    if database is None:
        return Calls(None, device, exact)
    opened = database if isinstance(database, Database) else Database(database)
    functions.use(opened)
    return Calls(opened, device, exact)
