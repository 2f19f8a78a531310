"""Matmuls with operands that TMA cannot read: a first launch copies these operands to workspaces with longer lines.

TMA copies only matrices whose lines are a multiple of 16 bytes apart (CUDA Driver API, cuTensorMapEncodeTiled). In a
workspace, lines are padded to such a distance. The tensor map of a workspace has the true size of the operand, so the
padding is never read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.hardware.requirements import OperandSide
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument, Launch
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.boxes import SIDES, STRIDE_BYTES, aligned_bytes
from search_spaces.templates.template import KernelTemplate

HEADER = "autosched/kernels/pad_lines.cuh"
CHUNK_BYTES = 16  # bytes that a thread copies at a time
THREADS = 256  # threads of a block that copies
BLOCKS_PER_SM = 8  # blocks per SM that copy; together they have 2,048 threads, the maximum that can be resident
_OF_A = "_of_a"  # suffix of the name of the device function that copies operand a but not operand b

AnyLaunch = TypeVar("AnyLaunch", bound=Launch)


class PaddedMatmul(Matmul):
    """A product that reads misaligned operands from copies whose lines are a multiple of 16 bytes apart."""

    def operands(self) -> tuple[Operand, ...]:
        """Return the operands of the product. Operands in workspaces have the names ``a_padded`` and ``b_padded``."""
        a, b, *rest = super().operands()
        return _padded(a), _padded(b), *rest


def padded_matmul(problem: Matmul) -> PaddedMatmul:
    """Return the product with padded operands that has the same result as ``problem``."""
    return PaddedMatmul(**_fields(problem))


def plain_matmul(problem: Matmul) -> Matmul:
    """Return the product of the user's operands, without copies of operands."""
    return Matmul(**_fields(problem))


def is_padded(problem: Matmul, side: OperandSide) -> bool:
    """Return True if an operand of the template's problem is a copy with longer lines."""
    return isinstance(problem, PaddedMatmul) and aligned_bytes(plain_matmul(problem), side) < STRIDE_BYTES


def _fields(problem: Matmul) -> dict[str, Any]:
    return {field.name: getattr(problem, field.name) for field in fields(problem)}


def _padded(operand: Operand) -> Operand:
    *across, line = operand.shape
    step = STRIDE_BYTES // math.gcd(STRIDE_BYTES, operand.dtype.bytes)
    longer = -(-line // step) * step
    if longer == line:
        return operand
    return Operand(f"{operand.name}_padded", "workspace", operand.dtype, (*across, longer))


def with_padded_operands(straight: KernelTemplate, *, space: Callable[..., Space]) -> KernelTemplate:
    """Return the template that copies misaligned operands first, and then runs ``straight``.

    Args:
        straight: Template that loads both operands of a matmul by TMA.
        space: The space function of ``straight``, which has an argument ``name`` for the name of the template.
    """
    straight_counts, straight_proxy = straight.counts, straight.proxy
    assert straight_counts is not None and straight_proxy is not None
    name = f"{straight.name}_padded"

    def supports(problem: Matmul, device: Device) -> str | None:
        if all(aligned_bytes(problem, side) == STRIDE_BYTES for side in SIDES):
            return (
                f"a and b need no copies, because their lines are multiples of {STRIDE_BYTES} bytes apart: use "
                f"{straight.name}"
            )
        return straight.supports(padded_matmul(problem), device)

    def padded_space(problem: Matmul, device: Device) -> Space:
        return space(padded_matmul(problem), device, name=name)

    def lower(problem: Matmul, config: Config, device: Device) -> GeneratedKernel:
        padded = padded_matmul(problem)
        return _after_copies(problem, padded, straight.lower(padded, config, device), device)

    def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
        padded = padded_matmul(problem)
        moved = sum(source.bytes + copy.bytes for source, copy in copied_operands(problem, padded))
        counted = straight_counts(padded, config, device)
        return replace(counted, launches=counted.launches + 1, staged_bytes=counted.staged_bytes + moved)

    def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
        return plain_matmul(straight_proxy(padded_matmul(problem), schedule))

    return replace(
        straight,
        name=name,
        summary=f"operands whose lines TMA cannot read are copied in a first launch; then {straight.name}",
        space=padded_space,
        lower=lower,
        supports=supports,
        counts=counts,
        proxy=proxy,
        drawings=lambda problem, config, device: straight.drawings(padded_matmul(problem), config, device),
        walk=None,
        content=f"{straight.content} padded operands",
    )


def copied_operands(problem: Matmul, padded: PaddedMatmul) -> tuple[tuple[Operand, Operand], ...]:
    """Return a pair (operand, copy of the operand) for each operand that is copied."""
    pairs = zip(problem.operands()[:2], padded.operands()[:2], strict=True)
    return tuple((source, copy) for source, copy in pairs if source != copy)


def _after_copies(problem: Matmul, padded: PaddedMatmul, kernel: GeneratedKernel, device: Device) -> GeneratedKernel:
    """Return a launch that pads operands, followed by ``kernel``.

    The tensor maps of ``kernel`` have the sizes before padding.
    """
    copied = copied_operands(problem, padded)
    source_of = {copy.name: source for source, copy in copied}

    def true_sizes(argument: Argument) -> Argument:
        if not isinstance(argument, TensorMap) or argument.operand.name not in source_of:
            return argument
        return replace(argument, sizes=source_of[argument.operand.name].shape[::-1])

    calls, parameters, chunks = [], [], 0
    for source, copy in copied:
        lines, size = math.prod(source.shape[:-1]), source.dtype.bytes
        line, longer = source.shape[-1] * size, copy.shape[-1] * size
        chunks = max(chunks, lines * longer // CHUNK_BYTES)
        calls.append(f"  autosched::pad_lines<{lines}ll, {line}ll, {longer}ll>({source.name}, {copy.name});\n")
        parameters.append(f"const {source.dtype.c_name}* __restrict__ {source.name}")
        parameters.append(f"{copy.dtype.c_name}* __restrict__ {copy.name}")
    entry = f"{kernel.entry}_copies"
    functions = _function(entry, parameters, calls)
    if len(copied) == 2:
        functions += _function(f"{entry}{_OF_A}", parameters[:2], calls[:1])
    product = Launch(
        entry=kernel.entry,
        arguments=tuple(true_sizes(argument) for argument in kernel.arguments),
        grid=kernel.grid,
        block=kernel.block,
        cluster=kernel.cluster,
        dynamic_shared_bytes=kernel.dynamic_shared_bytes,
    )
    return GeneratedKernel(
        entry=entry,
        source=f"#include <{HEADER}>\n{kernel.source}{functions}",
        headers=kernel.headers,
        arguments=tuple(operand for pair in copied for operand in pair),
        grid=(min(-(-chunks // THREADS), BLOCKS_PER_SM * device.sm_count), 1, 1),
        block=(THREADS, 1, 1),
        then=(product,),
        compile_options=kernel.compile_options,
        repeatable=kernel.repeatable,
        arch=kernel.arch,
    )


def _function(entry: str, parameters: Sequence[str], calls: Sequence[str]) -> str:
    return (
        f'\nextern "C" __global__ void __launch_bounds__({THREADS})\n'
        f"{entry}({', '.join(parameters)}) {{\n{''.join(calls)}}}\n"
    )


def with_padded_b(launch: AnyLaunch) -> AnyLaunch | None:
    """Return a launch whose input ``b`` is already a copy with longer lines.

    The returned launch uses functions of the same compiled module.

    Args:
        launch: Launch of any kernel of a matmul.

    Returns:
        The launch with an input ``b`` of the copy's shape; None if ``launch`` does not copy ``b``.
    """
    copy = next((o for o in launch.operands if (o.name, o.role) == ("b_padded", "workspace")), None)
    if copy is None or len(launch.then) != 1:
        return None
    b = replace(copy, name="b", role="input")
    (product,) = launch.then
    arguments = (
        replace(argument, operand=b) if isinstance(argument, TensorMap) and argument.operand == copy else argument
        for argument in product.arguments
    )
    product = replace(product, arguments=tuple(arguments))
    other_arguments = tuple(argument for argument in launch.arguments if argument.name not in ("b", copy.name))
    if other_arguments:
        return replace(launch, entry=f"{launch.entry}{_OF_A}", arguments=other_arguments, then=(product,))
    own = [f.name for f in fields(Launch) if f.name not in ("symbols", "unpassed")]
    return replace(launch, **{name: getattr(product, name) for name in own})
