"""One call of a Triton function: the grid, and the arguments except for the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from autosched.triton.arguments import tensor_of
from autosched.triton.tuning.function import LAUNCH_OPTIONS, TritonFunction

GRID, OUTPUTS = "grid", "outputs"


class CallError(ValueError):
    """Arguments that do not fit the function. The message is one line."""


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One call of a Triton function. ``grid`` is a tuple, or a function of all arguments, as in ``kernel[grid]``.

    ``arguments`` maps names to arguments and fixed launch options (``num_warps``). ``outputs`` has further tensors that
    the kernel writes, by name. The kernel reaches these tensors through addresses in an argument.
    """

    grid: Any
    arguments: Mapping[str, Any]
    outputs: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, function: TritonFunction, call_arguments: Any) -> KernelCall:
        """Return the call that a mapping describes, with ``grid`` and the arguments by name, as from ``make_args``.

        Raises CallError.
        """
        if not isinstance(call_arguments, Mapping):
            raise CallError(
                f"the arguments of {function.name} must be a dict of {GRID} and arguments by name, "
                f"not {call_arguments!r:.60}"
            )
        arguments = {name: value for name, value in call_arguments.items() if name not in (GRID, OUTPUTS)}
        if GRID not in call_arguments:
            raise CallError(
                f"the arguments of {function.name} have no {GRID}: add one, as a tuple or a function of the arguments"
            )
        return cls(call_arguments[GRID], arguments, call_arguments.get(OUTPUTS) or {})._checked(function)

    @classmethod
    def positional(
        cls, function: TritonFunction, grid: Any, values: tuple[Any, ...], named: Mapping[str, Any]
    ) -> KernelCall:
        """Return the call that ``kernel[grid](*values, **named)`` makes.

        Args:
            function: The kernel.
            grid: One to three sizes, or a function of the constants.
            values: Positional arguments.
            named: Keyword arguments, including launch options.

        Raises:
            CallError: There are more arguments than parameters, a name is unknown, or a parameter has no value.
        """
        if len(values) > len(function.parameters):
            raise CallError(f"{function.name} takes {len(function.parameters)} arguments, not {len(values)}")
        return cls(grid, {**dict(zip(function.parameters, values, strict=False)), **named})._checked(function)

    def _checked(self, function: TritonFunction) -> KernelCall:
        for name in self.arguments:
            if name not in function.parameters and name not in LAUNCH_OPTIONS:
                raise CallError(f"{function.name} has no parameter {name}: it has {', '.join(function.parameters)}")
        if not callable(self.grid) and not isinstance(self.grid, tuple | list | int):
            raise CallError(f"the grid of {function.name} must be a tuple or a function, got {self.grid!r:.60}")
        if isinstance(self.grid, int):
            return KernelCall((self.grid,), self.arguments, self.outputs)
        return self

    @property
    def scalars(self) -> dict[str, int]:
        """Return the integer arguments by name. Rules may use these names in addition to the names of parameters."""
        return {n: v for n, v in self.arguments.items() if isinstance(v, int) and not isinstance(v, bool)}

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the name and value of every tensor that the kernel can access."""
        for name, value in (*self.arguments.items(), *self.outputs.items()):
            yield from _tensors(name, value)

    def described(self, function: TritonFunction) -> str:
        """Return the text that identifies the call's problem: all that affects the time, except values of tensors."""
        names = [n for n in function.parameters if n in self.arguments]
        names += [n for n in self.arguments if n not in function.parameters]
        return " ".join(f"{name}={described_value(self.arguments[name])}" for name in names)

    def on_the_cpu(self) -> KernelCall:
        """Return the same call, with each tensor on a GPU replaced by a copy on the CPU."""
        moved = {name: _moved(value) for name, value in self.arguments.items()}
        return KernelCall(self.grid, moved, {n: t.cpu() for n, t in self.outputs.items()})


Arguments = Callable[..., Mapping[str, Any]]  # a user's function that creates the arguments for given sizes


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, tuple | list):
        for k, each in enumerate(value):
            yield from _tensors(f"{name}[{k}]", each)
        return
    tensor = tensor_of(value)
    if tensor is not None:
        yield name, tensor


def _moved(value: Any) -> Any:
    if (
        not isinstance(value, torch.Tensor) or value.untyped_storage().device.type == "cpu"
    ):  # also true for tensors on a simulated GPU
        return value
    return value.detach().cpu()


def described_value(value: Any) -> str:
    """Describe an argument: type, shape and strides of a tensor without its values; else the number or the name."""
    if isinstance(value, tuple | list):
        return f"({','.join(map(described_value, value))})"
    if isinstance(value, bool | int | str) or value is None:
        return "".join(str(value).split())
    if isinstance(value, float):
        return "float"
    tensor = tensor_of(value)
    if tensor is None:
        return "".join(str(getattr(value, "__name__", value)).split())
    shape = ",".join(map(str, tensor.shape))
    strides = "" if tensor.is_contiguous() else f"/{','.join(map(str, tensor.stride()))}"
    dtype = str(getattr(value, "dtype", tensor.dtype)).removeprefix("torch.")
    kind = "" if isinstance(value, torch.Tensor) else f"{type(value).__name__}:"
    return f"{kind}{dtype}[{shape}]{strides}"
