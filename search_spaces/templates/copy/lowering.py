"""From a config to the kernel of ``autosched/kernels/copy.cuh``, and to a problem to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.hardware.devices import Device
from search_spaces.operators.copy import Copy
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.cache_hints import load_hint_member, store_hint_member
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.kernel import Kernel

SOURCE = DeviceSource("autosched/kernels/copy.cuh", "autosched::copy")


def lower(problem: Copy, config: Config, device: Device) -> Kernel:
    """The kernel of a valid config."""
    constants = {name: config.integer(name) for name in ("threads", "vector_bytes", "unroll", "rounds", "stages")}
    switches = {"grid_order": config["order"] == "grid", "async": config["copy"] == "cp.async"}
    return SOURCE.kernel(
        "copy",
        members=(
            f"using Word = {problem.word.c_name};",
            f"static constexpr long long bytes = {problem.bytes}ll;",
            *(f"static constexpr int {name} = {value};" for name, value in constants.items()),
            f"static constexpr int blocks = {config['blocks']};",
            *(f"static constexpr bool {name} = {str(value).lower()};" for name, value in switches.items()),
            load_hint_member("x_cache", config.text("x_cache")),
            store_hint_member("out_cache", config.text("out_cache")),
        ),
        arguments=problem.operands(),
        call=("x", "out"),
        blocks=config.integer("blocks"),
        threads=config.integer("threads"),
        min_blocks=config.integer("min_blocks"),
        dynamic_shared_bytes=config.integer("shared_bytes"),
    )


def proxy(problem: Copy, schedule: Schedule) -> Copy:
    """``problem`` cut to one block that is full and one that has what is left over in the original."""
    block = schedule.integer("rounds") * schedule.integer("unroll") * schedule.integer("threads")
    elements = block * schedule.integer("vector_bytes") // problem.element_bytes
    if problem.elements <= 2 * elements:
        return problem
    return replace(problem, rows=1, columns=elements + (problem.elements % elements or elements), batch=1)
