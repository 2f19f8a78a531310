"""From (Problem, Schedule) to a Kernel: an include, a Config of constants, one entry. Algorithms are in .cuh files."""

from __future__ import annotations

from functools import cache
from importlib import resources

from search_spaces.catalogue import KernelConfig, family
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Operand, Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.headers import Headers
from search_spaces.templates.kernel import Kernel


@cache
def include_dir() -> str:
    """The folder that ``#include <autosched/...>`` is found in."""
    return str(resources.files("autosched").joinpath("include"))


def headers() -> Headers:
    """The device code that generated kernels include."""
    return Headers.from_folder(include_dir())


def generate(problem: Problem, schedule: Schedule, device: Device) -> Kernel:
    """The kernel of one schedule. Raises ValueError with the rule's reason if it cannot compute ``problem``."""
    row = family(problem.family)
    config = row.config(problem, schedule, device)
    name = f"autosched_{row.name}"
    return Kernel(
        entry=name,
        source=_source(name, row.header, row.entry, config),
        headers=headers(),
        arguments=config.arguments,
        grid=(config.blocks, 1, 1),
        block=(config.threads, 1, 1),
        dynamic_shared_bytes=config.dynamic_shared_bytes,
        launches=config.launches,
    )


def _source(name: str, header: str, entry: str, config: KernelConfig) -> str:
    members = "\n".join(f"  {line}" for line in config.members)
    parameters = ", ".join(_parameter(operand) for operand in config.arguments)
    return (
        f"#include <{header}>\n\n"
        f"struct Config {{\n{members}\n}};\n\n"
        f'extern "C" __global__ void __launch_bounds__({config.threads}, {config.min_blocks})\n'
        f"{name}({parameters}) {{\n"
        f"  {entry}<Config>({', '.join(config.call)});\n"
        f"}}\n"
    )


def _parameter(operand: Operand) -> str:
    const = "const " if operand.role == "input" else ""
    return f"{const}{operand.dtype.c_name}* __restrict__ {operand.name}"
