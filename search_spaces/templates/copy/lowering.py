"""Generate the kernel of ``autosched/kernels/copy.cuh``, and derive a smaller problem for the emulator."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.copy import Copy
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.device_source import DeviceSource

SOURCE = DeviceSource("autosched/kernels/copy.cuh", "autosched::copy")


def lower(problem: Copy, config: Config, device: Device) -> GeneratedKernel:
    """Return the kernel of a valid config."""
    return SOURCE.kernel(
        config,
        constants={"bytes": problem.bytes},
        types={"Word": problem.word.c_name},
        arguments=problem.operands(),
        call=("x", "out"),
        blocks=config.integer("blocks"),
    )


def proxy(problem: Copy, schedule: Schedule) -> Copy:
    """Return ``problem`` reduced to one full block, and one block with the original problem's remainder."""
    block = schedule.integer("rounds") * schedule.integer("unroll") * schedule.integer("threads")
    elements = block * schedule.integer("vector_x") // problem.element_bytes
    if problem.elements <= 2 * elements:
        return problem
    return replace(problem, rows=1, columns=elements + (problem.elements % elements or elements), batch=1)
