"""Calls of a tile program with arrays of any size; each call uses the schedule of the nearest tuned size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from autosched.dispatch.given_arrays import arguments, torch_of, torch_type
from autosched.dispatch.kernel import LoadedKernel, gpu_library
from autosched.programs.loading import problem
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.operand import stride_of
from search_spaces.programs.builder import Program

MOST_KERNELS = 256  # maximum number of loaded kernels; each combination of dynamic sizes has a separate kernel


class KernelOfAnySize:
    """A tile program on the current GPU, for arrays of any dynamic sizes.

    Call it like a ``LoadedKernel``; the shapes of the arrays give the sizes. The first call at a size looks up the
    schedule of the nearest tuned size. Sizes share one compiled kernel if they have the same schedule and the same
    divisor: 16, 8 or none.

    Only the kernels of the MOST_KERNELS most recently used sizes stay loaded. If a CUDA graph launches a kernel, keep
    a reference to the kernel (the result of ``of``), so that it is not unloaded.

    If a dynamic size is 0, no kernel is launched, and passed outputs are unchanged.

    Args:
        kernel_of: Function that returns the kernel for a program and values of all sizes, like ``Database.kernel``.
        program: A program with dynamic sizes.
        sizes: Values of the constant sizes, by name.

    Raises:
        ValueError: A constant size is missing, or ``sizes`` has a name that is not a constant size of the program.
    """

    def __init__(self, kernel_of: Callable[..., LoadedKernel], program: Program, sizes: Mapping[str, int]) -> None:
        self._kernel_of, self._program, self._sizes = kernel_of, program, dict(sizes)
        constants = [name for name in program.sizes if name not in program.dynamic]
        if sorted(sizes) != sorted(constants):
            raise ValueError(f"{program.name} needs the sizes {', '.join(constants)}, not {', '.join(sizes) or 'none'}")
        known = {**sizes, **{name: 0 if name in program.strides.values() else 1 for name in program.dynamic}}
        self._inputs = tuple(o for o in problem(program, **known).operands() if o.role != "output")
        self._kernel_at = lru_cache(maxsize=MOST_KERNELS)(self._load)

    def _load(self, sizes: tuple[tuple[str, int], ...]) -> LoadedKernel:
        return self._kernel_of(self._program, **self._sizes, **dict(sizes))

    def of(self, *arrays: Any, **named: Any) -> LoadedKernel:
        """Return the kernel for the shapes of these inputs.

        Raises:
            ValueError: Arrays are missing or have inconsistent sizes.
        """
        return self._kernel_at(tuple(self._sizes_of(arrays, named).items()))

    def _sizes_of(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, int]:
        """Return the dynamic sizes of a call. Raises ValueError as ``of`` does."""
        arrays_by_name = arguments(self._inputs, arrays, self._without_scalars(named))
        declared = dict(self._program.arguments)
        sizes: dict[str, tuple[int, str]] = {}
        for operand in self._inputs:
            names, shape = declared[operand.name].sizes, tuple(arrays_by_name[operand.name].shape)
            if len(shape) == len(names) - 1:
                shape = (1, *shape)
            for name, extent in zip(names, shape, strict=False):
                if name in self._program.dynamic and len(shape) == len(names):
                    size, by = sizes.setdefault(name, (extent, operand.name))
                    if size != extent:
                        raise ValueError(f"{name} is {extent} in {operand.name}, but {size} in {by}")
            if declared[operand.name].strided and len(arrays_by_name[operand.name].shape) == len(names):
                stride = _stride(operand.name, arrays_by_name[operand.name])
                sizes[self._program.strides[operand.name]] = stride, operand.name
        missing = [name for name in self._program.dynamic if name not in sizes]
        if missing:
            raise ValueError(
                f"no input determines the size {missing[0]}: call kernel({self._program.name}, {missing[0]}=..)"
            )
        return {name: size for name, (size, _) in sizes.items()}

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Launch the kernel, unless a size is 0.

        Raises:
            ValueError: For the same reasons as in ``of`` and ``LoadedKernel``. Also raised if ``out`` is omitted, a
                size is 0 and an output has elements, because no launch would write the elements.
        """
        sizes = self._sizes_of(arrays, named)
        if 0 not in sizes.values():
            return self.of(*arrays, **named)(*arrays, out=out, **named)
        for name, scalar in self._program.scalars:
            scalar.checked(name, named.get(name, scalar.default))
        return self._nothing(sizes, arguments(self._inputs, arrays, self._without_scalars(named)), out)

    def _without_scalars(self, named: Mapping[str, Any]) -> dict[str, Any]:
        scalars = dict(self._program.scalars)
        return {name: array for name, array in named.items() if name not in scalars}

    def _nothing(self, sizes: Mapping[str, int], arrays_by_name: Mapping[str, Any], out: Any) -> Any:
        """Return the outputs of a call in which a size is 0."""
        empty, known = next(name for name, size in sizes.items() if size == 0), {**self._sizes, **sizes}
        outputs = [(name, a) for name, a in self._program.arguments if a.role == "output"]
        if out is None and outputs:
            shapes = {name: tuple(known[size] for size in a.sizes) for name, a in outputs}
            full = next((name for name, shape in shapes.items() if 0 not in shape), None)
            if full is not None:
                raise ValueError(
                    f"{full} would stay uninitialised, because {empty} is 0 and nothing is launched: pass out=, which "
                    "is returned unchanged"
                )
            first = arrays_by_name[self._inputs[0].name]
            results = tuple(
                _empty(first, shape, a.dtype) for shape, (_, a) in zip(shapes.values(), outputs, strict=True)
            )
            return results if len(results) > 1 else results[0]
        if out is not None:
            return out
        written = tuple(arrays_by_name[name] for name, a in self._program.arguments if a.role == "inout")
        return written if len(written) > 1 else written[0]


def _stride(name: str, array: Any) -> int:
    """Return the number of elements from one row of an array to the next. Raises ValueError like ``stride_of``."""
    if torch_of(array) is not None:
        return stride_of(name, tuple(array.shape), array.stride(), 1)
    return stride_of(name, array.shape, array.strides, array.dtype.itemsize)


def _empty(like: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return an array without elements, of the same library as ``like``."""
    torch = torch_of(like)
    if torch is not None:
        return like.new_empty(shape, dtype=getattr(torch, torch_type(dtype)))
    return gpu_library().empty(shape, dtype.storage)
