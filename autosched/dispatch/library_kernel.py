"""Calls of the vendor's library, for problems for which the library was faster than all tuned kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from autosched.dispatch.kernel import LoadedKernel
from autosched.dispatch.provenance import KernelProvenance
from measurements.runners.cuda.libraries.baselines import Unable, library_multiplier, library_product
from measurements.runners.cuda.libraries.cublas import CublasError, library_version
from search_spaces.operators.problem import Problem


class LibraryKernel(LoadedKernel):
    """Call of cuBLAS with the interface, checks and streams of a loaded kernel."""

    def __init__(self, cp: Any, problem: Problem, provenance: KernelProvenance) -> None:
        """Prepare the call. Raises Unable if the library cannot compute ``problem``."""
        super().__init__(cp, problem.operands(), provenance)
        self._gemm, names = library_product(problem)
        self._positions = [self._names.index(name) for name in names]
        self._multipliers: dict[int, Callable[..., None]] = {}  # cuBLAS handles, by stream

    def _launch(self, starts: Sequence[int]) -> None:
        stream = self._cupy.cuda.get_current_stream()
        address = int(stream.ptr)
        multiply = self._multipliers.get(address)
        if multiply is None:
            multiply = self._multipliers[address] = library_multiplier(self._cupy, stream, self._gemm)
        multiply(*(starts[i] for i in self._positions))

    def _bound(self, starts: Sequence[int]) -> Callable[[], None]:
        return partial(self._launch, starts)


def usable_library(problem: Problem) -> str:
    """Return the version of the library that computes ``problem``.

    Raises:
        ValueError: The library cannot be called.
    """
    try:
        library_product(problem)
        return library_version()
    except (Unable, CublasError) as error:
        raise ValueError(str(error)) from error
