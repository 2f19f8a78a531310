"""Tile programs called at any size: one kernel serves every value of a dynamic size, with the nearest tuned
schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autosched.dispatch.given_arrays import arguments
from autosched.dispatch.kernel import LoadedKernel
from autosched.programs.loading import problem
from search_spaces.programs.builder import Program


class KernelOfAnySize:
    """A tile program on the current GPU, for arrays of any dynamic sizes.

    Call it like a ``LoadedKernel``; the shapes of the arrays give the sizes. The first call at a size looks up the
    nearest tuned schedule. One kernel is compiled per schedule and per divisor of a size (16, 8, or none).

    Args:
        kernel_of: Returns the kernel of a program at all its sizes, like ``Database.kernel``.
        program: A program with dynamic sizes.
        sizes: The constant sizes by name.

    Raises:
        ValueError: A constant is missing, or the program has no size of that name.
    """

    def __init__(self, kernel_of: Callable[..., LoadedKernel], program: Program, sizes: Mapping[str, int]) -> None:
        self._kernel_of, self._program, self._sizes = kernel_of, program, dict(sizes)
        constants = [name for name in program.sizes if name not in program.dynamic]
        if sorted(sizes) != sorted(constants):
            raise ValueError(f"{program.name} needs the sizes {', '.join(constants)}, not {', '.join(sizes) or 'none'}")
        known = {**sizes, **{name: 1 for name in program.dynamic}}
        self._inputs = tuple(o for o in problem(program, **known).operands() if o.role != "output")
        self._kernels: dict[tuple[int, ...], LoadedKernel] = {}

    def of(self, *arrays: Any, **named: Any) -> LoadedKernel:
        """Return the kernel for inputs of these shapes.

        Raises:
            ValueError: Arrays are missing or disagree about a size; also everything that ``Database.kernel`` raises.
        """
        given = arguments(self._inputs, arrays, named)
        said = dict(self._program.arguments)
        found: dict[str, tuple[int, str]] = {}
        for operand in self._inputs:
            names, shape = said[operand.name].sizes, tuple(given[operand.name].shape)
            if len(shape) == len(names) - 1:
                shape = (1, *shape)
            if names[0] in self._program.dynamic and len(shape) == len(names):
                size, by = found.setdefault(names[0], (shape[0], operand.name))
                if size != shape[0]:
                    raise ValueError(f"{names[0]} is {shape[0]} in {operand.name}, but {size} in {by}")
        missing = [name for name in self._program.dynamic if name not in found]
        if missing:
            raise ValueError(f"no input says the size {missing[0]}: call kernel({self._program.name}, {missing[0]}=..)")
        sizes = {name: size for name, (size, _) in found.items()}
        key = tuple(sizes.values())
        if key not in self._kernels:
            self._kernels[key] = self._kernel_of(self._program, **self._sizes, **sizes)
        return self._kernels[key]

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Launch the kernel. Raises ValueError as ``of`` and ``LoadedKernel`` do."""
        return self.of(*arrays, **named)(*arrays, out=out, **named)
