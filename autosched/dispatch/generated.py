"""Loading of generated kernels, including the variant for packed weights if there is one."""

from __future__ import annotations

from functools import partial
from typing import Any

from autosched.dispatch.kernel import CubinKernel
from autosched.dispatch.packing import padded_lines
from autosched.dispatch.provenance import KernelProvenance
from search_spaces.launches.launch import Launch
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.templates.common.padded_operands import with_padded_b


def load_kernel(cp: Any, problem: Problem, launch: Launch, cubin: str, provenance: KernelProvenance) -> CubinKernel:
    """Load the kernel of a problem on the current GPU. Its inputs are in the order of the problem's operands.

    Some matmul kernels first copy ``b`` to padded lines. Such a kernel also accepts a ``b`` that is already padded, and
    does not copy it.

    Args:
        cp: The cupy module.
        problem: Problem of the kernel.
        launch: Launch of the kernel.
        cubin: Path of the kernel's cubin.
        provenance: Source of the kernel.

    Raises:
        LaunchRefused: As ``CubinKernel``.
    """
    names = [operand.name for operand in problem.operands()]
    kernel = CubinKernel(cp, launch, cubin, provenance, names)
    packed = with_padded_b(launch) if isinstance(problem, Matmul) else None
    if packed is not None:
        kernel.packed = CubinKernel(cp, packed, cubin, provenance, names)
        source, lines = (next(o for o in k.inputs if o.name == "b") for k in (kernel, kernel.packed))
        kernel.packing = partial(padded_lines, source, lines)
    return kernel
