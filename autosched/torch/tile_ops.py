"""Operators ``torch.ops.autosched`` for tile operators. Schema, shapes and CPU code are derived from the problem type.

For CPU tensors, an operator computes the problem's reference. Inside the context ``emulated``, it instead runs the
selected kernel in the emulator. Only the operators of ``attention_gradient.py`` and ``cross_entropy_gradient.py`` have
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from string import ascii_lowercase
from typing import Any

import numpy as np
import torch

import autosched
from autosched.dispatch import call_log
from autosched.dispatch.call_signature import TYPES, tile_problem
from autosched.torch import cpu, host_path
from autosched.torch.plans import facts
from measurements.emulator import emulate
from search_spaces.arrays import Array
from search_spaces.catalogue import tile_problems
from search_spaces.launches.operand import Operand
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.tile_problem import TileOperator

_SCHEMA_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}
_TORCH = {ours: getattr(torch, theirs) for theirs, ours in TYPES.items()} | {"u8": torch.uint8}

NOTHING_FIXED: Mapping[str, Any] = {}
# keep the library alive: its operators would be removed with it
library = torch.library.Library("autosched", "FRAGMENT")


def schema(problem: type[TileOperator], outputs: int = 0) -> str:
    """Return the schema of an operator, with its inputs, optional inputs, options and results.

    The schema marks inputs that the operator changes in place. ``outputs`` is the number of results, by default the
    number of the problem's outputs.
    """
    marks = dict(zip(problem.changed_inputs, ascii_lowercase, strict=False))
    parts = [f"Tensor({marks[n]}!) {n}" if n in marks else f"Tensor {n}" for n in problem.inputs]
    parts += [f"Tensor? {name}=None" for name in problem.optional_inputs]
    for name, default in problem.call_options.items():
        written = f'"{default}"' if isinstance(default, str) else str(default)
        parts.append(f"{_SCHEMA_TYPES[type(default)]} {name}={written}")
    count = outputs or problem.outputs
    results = ", ".join(["Tensor"] * count)
    return f"({', '.join(parts)}) -> " + (f"({results})" if count > 1 else results)


def bound(
    problem: type[TileOperator], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Map the arguments of a call to tensors and options by name.

    Args:
        problem: Problem type of the operator.
        arguments: Positional arguments of the call.
        named: Keyword arguments of the call.

    Returns:
        Tensors by name, and options by name including defaults.
    """
    names = (*problem.inputs, *problem.optional_inputs, *problem.call_options)
    bound_arguments = {**dict(zip(names, arguments, strict=False)), **named}
    options = {name: bound_arguments.pop(name, default) for name, default in problem.call_options.items()}
    return {name: tensor for name, tensor in bound_arguments.items() if tensor is not None}, options


def _problem(problem: type[TileOperator], tensors: Mapping[str, Any], options: Mapping[str, Any]) -> TileOperator:
    return tile_problem(problem, {name: facts(tensor) for name, tensor in tensors.items()}, options)


def _outputs(operator: TileOperator) -> list[Operand]:
    return [o for o in operator.operands() if o.role == "output"]


def _result(tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _fake(problem: type[TileOperator], fixed: Mapping[str, Any], *arguments: Any, **named: Any) -> Any:
    tensors, options = bound(problem, arguments, named)
    operator, first = _problem(problem, tensors, {**options, **fixed}), next(iter(tensors.values()))
    return _result([first.new_empty(o.shape, dtype=_TORCH[o.dtype.name]) for o in _outputs(operator)])


def on_gpu(problem: type[TileOperator], *arguments: Any, fixed: Mapping[str, Any] = NOTHING_FIXED, **named: Any) -> Any:
    """Return the result of an operator on GPU tensors."""
    tensors, options = bound(problem, arguments, named)
    function: Callable[..., Any] = getattr(autosched, problem.operator)
    inputs = [tensors.pop(name) for name in problem.inputs]  # pass optional tensors by keyword, as some may be omitted
    return function(*inputs, **tensors, **options, **fixed)


def called(
    problem: type[TileOperator], *arguments: Any, fixed: Mapping[str, Any] = NOTHING_FIXED, **named: Any
) -> host_path.Called:
    """Return the problem and arrays of a call of an operator."""
    tensors, options = bound(problem, arguments, named)
    operator = _problem(problem, tensors, {**options, **fixed})
    return host_path.Called(operator, (*tensors, *(o.name for o in _outputs(operator))))


def _on_cpu(problem: type[TileOperator], fixed: Mapping[str, Any], *arguments: Any, **named: Any) -> Any:
    tensors, options = bound(problem, arguments, named)
    operator = _problem(problem, tensors, {**options, **fixed})
    if call_log.active():
        call_log.add(operator)
    inputs = {o.name: _stored(o, tensors[o.name]) for o in operator.operands() if o.role != "output"}
    stored = torch.compiler.disable(_emulated)(operator, inputs) if cpu.is_emulated() else None
    if stored is None:
        results, unchanged = operator.reference(inputs), operator.unchanged(inputs)
        stored = {o.name: o.dtype.store(results[o.name]) for o in operator.operands() if o.role != "input"}
        stored |= {name: np.where(mask, inputs[name], stored[name]) for name, mask in unchanged.items()}
    for name in problem.changed_inputs:
        tensors[name].copy_(_tensor(operator.operand(name), stored[name]))
    return _result([_tensor(o, stored[o.name]) for o in _outputs(operator)])


def _emulated(operator: TileOperator, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return the outputs of the selected kernel in the emulator; None if the vendor's library was selected."""
    kernel, time_limit = cpu.emulated_kernel(operator)
    if kernel is None:
        return None
    done = emulate(kernel, inputs, time_limit=time_limit)
    cpu.check_run(operator.operator, done)
    return {o.name: done.outputs[o.name] for o in operator.operands() if o.role != "input"}


def _stored(operand: Operand, tensor: Any) -> Array:
    raw: Array = tensor.detach().contiguous().view(torch.uint8).numpy() if tensor.dim() else tensor.numpy()
    return raw.reshape(-1).view(operand.dtype.storage).reshape(operand.shape)


def _tensor(operand: Operand, stored: Array) -> Any:
    flat = torch.from_numpy(np.ascontiguousarray(stored).view(np.uint8).reshape(-1).copy())
    return flat.view(_TORCH[operand.dtype.name]).reshape(operand.shape)


def _define(name: str, problem: type[TileOperator], outputs: int, **fixed: Any) -> None:
    """Define ``torch.ops.autosched.<name>``.

    Args:
        name: Name of the operator.
        problem: Problem type of the operator.
        outputs: Number of the operator's results.
        fixed: Options that a call cannot set.
    """
    text = schema(problem, outputs)
    library.define(name + text)
    calls = partial(on_gpu, problem, fixed=fixed), partial(called, problem, fixed=fixed)
    host_path.implement(library, name, text, *calls)
    library.impl(name, partial(_on_cpu, problem, fixed), "CPU")
    torch.library.register_fake(f"autosched::{name}", partial(_fake, problem, fixed), lib=library)


for _type in tile_problems():
    _define(_type.operator, _type, _type.outputs)
_define("attention_with_sums", Attention, 2, log_sum_exp=1)
