"""Check whether a device supports the sizes and the instructions of a launch.

The rules of a schedule space already respect a device's limits. This check uses tables that schedule spaces do not use,
so it detects a wrong rule or a wrong launch before emulation. Limits: CUDA C++ Programming Guide 13.0, "Technical
Specifications per Compute Capability". Architectures of instructions: PTX ISA, "Target ISA Notes".
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from measurements.emulator.ptx.build import (
    KernelCompileError,
    compile_to_bytecode,
    ptx_to_bytecode,
    read_program_facts,
)
from search_spaces.hardware.devices import Device, occupancy
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch

_KIB = 1024
MOST_THREADS, MOST_BLOCKS, MOST_PORTABLE_CLUSTER = 1024, 2**31 - 1, 8
_RESERVED = 1024  # bytes of shared memory that the driver reserves for each block, since compute capability 8.0


class Limits(NamedTuple):
    """Limits of one compute capability: shared memory in bytes, threads per SM, blocks per SM."""

    shared_of_block: int
    shared_of_sm: int
    threads_of_sm: int
    blocks_of_sm: int


LIMITS = {
    sm: Limits(block * _KIB, of_sm * _KIB, threads, blocks)
    for sm, block, of_sm, threads, blocks in (
        (75, 64, 64, 1024, 16),
        (80, 163, 164, 2048, 32),
        (86, 99, 100, 1536, 16),
        (87, 163, 164, 1536, 16),
        (89, 99, 100, 1536, 24),
        (90, 227, 228, 2048, 32),
        (100, 227, 228, 2048, 32),
        (103, 227, 228, 2048, 32),
        (110, 227, 228, 1536, 24),
        (120, 99, 100, 1536, 24),
        (121, 99, 100, 1536, 24),
    )
}

# Prefixes of instructions, with the minimum compute capability or the targets that support them.
_INSTRUCTIONS: tuple[tuple[str, int | tuple[str, ...]], ...] = (
    (r"wgmma\.", ("sm_90a",)),
    (r"setmaxnreg\.", 90),
    (r"tcgen05\.", ("sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f")),
    (r"(cp\.(reduce\.)?async\.bulk|tensormap\.)", 90),
    (r"(barrier\.cluster|mapa)\b", 90),
    (r"(stmatrix|elect\.sync|griddepcontrol)", 90),
    (r"mma\.sync\.\S*\.(e4m3|e5m2)\b", 89),
    (r"cp\.async\b", 80),
    (r"mma\.sync\.\S*m16n8k16\S*\.(f16|bf16)\b", 80),
    (r"mma\.sync\.\S*\.(tf32|bf16)\b", 80),
    (r"mma\.sync\.\S*m16n8k(16|32)\S*\.(s8|u8)\b", 80),
    (r"mbarrier\.", 80),
    (r"redux\.sync", 80),
)


def why_refused(kernel: GeneratedKernel, device: Device, compiled: GeneratedKernel | None = None) -> str:
    """Return the reason why ``device`` cannot run ``kernel``, in one sentence, or "" if it can.

    The checked instructions are those of ``compiled``, which may be a kernel of the same schedule for a smaller
    problem. By default, they are those of ``kernel`` itself. Kernels that do not compile are not checked here.
    """
    limits = LIMITS.get(device.sm)
    if limits is None:
        return ""
    if kernel.then:
        each = zip(kernel.steps, (compiled or kernel).steps, strict=True)
        reasons = ((step.name, why_refused(step, device, small)) for step, small in each)
        return next((f"{name}: {reason}" for name, reason in reasons if reason), "")
    try:
        facts = read_program_facts(compile_to_bytecode(compiled or kernel).path)
    except KernelCompileError:
        return ""
    return _launch(kernel, device, limits, facts.static_shared, facts.blocks_of_sm) or _instructions(
        device, facts.instructions
    )


def why_not_cooperative(launch: Launch, device: Device, ptx: str) -> str:
    """Return the reason why ``device`` cannot run all blocks of ``launch`` at the same time, or "" if it can.

    Registers are not counted, because ptxas decides their number.
    """
    try:
        static = read_program_facts(ptx_to_bytecode(ptx, launch.entry).path).static_shared
    except KernelCompileError:
        return ""  # report no reason, because the emulated run reports the compile error in more detail
    blocks = occupancy(device, launch.threads, 0, static + launch.dynamic_shared_bytes) * device.sm_count
    if launch.blocks <= blocks:
        return ""
    return f"the cooperative launch has {launch.blocks} blocks, but {device.name} runs only {blocks} of them at a time"


def _launch(kernel: GeneratedKernel, device: Device, limits: Limits, static: int, blocks: int) -> str:
    shared, reserved = static + kernel.dynamic_shared_bytes, 0 if device.sm < 80 else _RESERVED
    cluster = math.prod(kernel.cluster)
    if shared > limits.shared_of_block:
        return (
            f"{device.name} rejects the launch: a block needs {shared} bytes of shared memory, but the limit is "
            f"{limits.shared_of_block}"
        )
    if blocks * (shared + reserved) > limits.shared_of_sm:
        return (
            f"{device.name} cannot hold {blocks} blocks on an SM, as __launch_bounds__ requests: they need "
            f"{blocks * (shared + reserved)} bytes of shared memory ({reserved} per block for the driver), but an SM "
            f"has {limits.shared_of_sm}"
        )
    if kernel.threads > MOST_THREADS or blocks * kernel.threads > limits.threads_of_sm:
        return f"{device.name} cannot run {max(blocks, 1)} blocks of {kernel.threads} threads on an SM"
    if blocks > limits.blocks_of_sm:
        return f"{device.name} runs at most {limits.blocks_of_sm} blocks on an SM, not {blocks}"
    if math.prod(kernel.grid) > MOST_BLOCKS:
        return f"a grid has at most {MOST_BLOCKS} blocks, not {math.prod(kernel.grid)}"
    if cluster > 1 and not device.has("clusters"):
        return f"the launch has clusters of {cluster} blocks, which {device.name} does not support"
    if kernel.dependent and not device.has("programmatic_launch"):
        return f"{device.name} does not support programmatic dependent launches"
    if kernel.cooperative and kernel.blocks > (
        fitting := occupancy(device, kernel.threads, 0, shared) * device.sm_count
    ):
        return (
            f"the cooperative launch has {kernel.blocks} blocks, but {device.name} runs only {fitting} of them at a "
            "time"
        )
    if cluster > MOST_PORTABLE_CLUSTER:
        return f"a cluster has {cluster} blocks, more than the portable maximum of {MOST_PORTABLE_CLUSTER}"
    return ""


def _instructions(device: Device, instructions: tuple[str, ...]) -> str:
    lacking = [(pattern, needs) for pattern, needs in _INSTRUCTIONS if not _has(device, needs)]
    # Check one instruction per opcode: the first, without its guard predicate.
    plain = (i.partition(" ")[2].lstrip() if i.startswith("@") else i for i in reversed(instructions))
    for instruction in reversed({i.partition(" ")[0]: i for i in plain}.values()):
        for pattern, needs in lacking:
            if re.match(pattern, instruction):
                since = f"sm_{needs} and later" if isinstance(needs, int) else ", ".join(needs)
                return (
                    f"{device.name} ({device.arch}) does not support this instruction, which needs {since}: "
                    f"{instruction}"
                )
    return ""


def _has(device: Device, needs: int | tuple[str, ...]) -> bool:
    return device.sm >= needs if isinstance(needs, int) else device.arch in needs
