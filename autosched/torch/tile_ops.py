"""``torch.ops.autosched`` of operators that state their tile program: schema, shapes and CPU kernels follow from the
problem type.

On CPU tensors they are the problem's reference, or within ``emulated`` the chosen kernel in the emulator. They have no
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from autosched.dispatch import call_log, tile_functions
from autosched.dispatch.call_signature import TYPES, tile_problem
from autosched.torch import cpu, host_path
from autosched.torch.plans import facts
from measurements.emulator import emulate
from search_spaces.arrays import Array
from search_spaces.catalogue import TILE_PROBLEMS
from search_spaces.launches.operand import Operand
from search_spaces.tile_operators.tile_problem import TileProblem

_SCHEMA_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}
_TORCH = {ours: getattr(torch, theirs) for theirs, ours in TYPES.items()} | {"u8": torch.uint8}

_library = torch.library.Library("autosched", "FRAGMENT")  # must live as long as its operators


def schema(problem: type[TileProblem]) -> str:
    """Return the schema of an operator: its inputs, optional inputs and options."""
    parts = [f"Tensor {name}" for name in problem.inputs]
    parts += [f"Tensor? {name}=None" for name in problem.optional_inputs]
    for name, default in problem.call_options.items():
        written = f'"{default}"' if isinstance(default, str) else str(default)
        parts.append(f"{_SCHEMA_TYPES[type(default)]} {name}={written}")
    results = ", ".join(["Tensor"] * problem.outputs)
    return f"({', '.join(parts)}) -> " + (f"({results})" if problem.outputs > 1 else results)


def _bound(
    problem: type[TileProblem], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors that are given, and all options, by name."""
    names = (*problem.inputs, *problem.optional_inputs, *problem.call_options)
    given = {**dict(zip(names, arguments, strict=False)), **named}
    options = {name: given.pop(name, default) for name, default in problem.call_options.items()}
    return {name: tensor for name, tensor in given.items() if tensor is not None}, options


def _problem(problem: type[TileProblem], tensors: Mapping[str, Any], options: Mapping[str, Any]) -> TileProblem:
    return tile_problem(problem, {name: facts(tensor) for name, tensor in tensors.items()}, options)


def _outputs(made: TileProblem) -> list[Operand]:
    return [o for o in made.operands() if o.role == "output"]


def _result(tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _fake(problem: type[TileProblem], *arguments: Any, **named: Any) -> Any:
    tensors, options = _bound(problem, arguments, named)
    made, first = _problem(problem, tensors, options), next(iter(tensors.values()))
    return _result([first.new_empty(o.shape, dtype=_TORCH[o.dtype.name]) for o in _outputs(made)])


def on_gpu(problem: type[TileProblem], *arguments: Any, **named: Any) -> Any:
    """Return the result of an operator on GPU tensors."""
    tensors, options = _bound(problem, arguments, named)
    function: Callable[..., Any] = getattr(tile_functions, problem.operator)
    inputs = [tensors.pop(name) for name in problem.inputs]  # before the call takes the rest
    return function(*inputs, **tensors, **options)


def called(problem: type[TileProblem], *arguments: Any, **named: Any) -> host_path.Called:
    """Return problem and arrays of a call of an operator."""
    tensors, options = _bound(problem, arguments, named)
    made = _problem(problem, tensors, options)
    return host_path.Called(made, (*tensors, *(o.name for o in _outputs(made))))


def _on_cpu(problem: type[TileProblem], *arguments: Any, **named: Any) -> Any:
    tensors, options = _bound(problem, arguments, named)
    made = _problem(problem, tensors, options)
    if call_log.active():
        call_log.add(made)
    inputs = {o.name: _stored(o, tensors[o.name]) for o in made.operands() if o.role != "output"}
    stored = torch.compiler.disable(_emulated)(made, inputs) if cpu.is_emulated() else None
    if stored is None:
        found: Mapping[str, Array] = made.reference(inputs)
        stored = {o.name: o.dtype.store(found[o.name]) for o in _outputs(made)}
    return _result([_tensor(o, stored[o.name]) for o in _outputs(made)])


def _emulated(made: TileProblem, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return the outputs of the chosen kernel in the emulator; None where a library is called."""
    kernel, time_limit = cpu.emulated_kernel(made)
    if kernel is None:
        return None
    done = emulate(kernel, inputs, time_limit=time_limit)
    cpu.check_run(made.operator, done)
    return {o.name: done.outputs[o.name] for o in _outputs(made)}


def _stored(operand: Operand, tensor: Any) -> Array:
    raw: Array = tensor.detach().contiguous().view(torch.uint8).numpy() if tensor.dim() else tensor.numpy()
    return raw.reshape(-1).view(operand.dtype.storage).reshape(operand.shape)


def _tensor(operand: Operand, stored: Array) -> Any:
    flat = torch.from_numpy(np.ascontiguousarray(stored).view(np.uint8).reshape(-1).copy())
    return flat.view(_TORCH[operand.dtype.name]).reshape(operand.shape)


for _type in TILE_PROBLEMS:
    _library.define(_type.operator + schema(_type))
    host_path.implement(_library, _type.operator, schema(_type), partial(on_gpu, _type), partial(called, _type))
    _library.impl(_type.operator, partial(_on_cpu, _type), "CPU")
    torch.library.register_fake(f"autosched::{_type.operator}", partial(_fake, _type), lib=_library)
