"""From a schedule to the constants of ``autosched/kernels/copy.cuh`` and its launch, and to a problem to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.catalogue import KernelConfig
from search_spaces.hardware.devices import Device
from search_spaces.operators.copy import Copy
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.cache_hints import load_hint_member, store_hint_member
from search_spaces.templates.copy.space import valid_space


def config(problem: Copy, schedule: Schedule, device: Device) -> KernelConfig:
    """Constants, arguments and launch of ``schedule``.

    Raises ValueError with the rule's name and reason if the schedule breaks a law of ``problem``.
    """
    space = valid_space(problem, device)
    space.validate(schedule)
    facts = space.describe(schedule)
    constants = {name: schedule.integer(name) for name in ("threads", "vector_bytes", "unroll", "rounds", "stages")}
    switches = {"grid_order": schedule["order"] == "grid", "async": schedule["copy"] == "cp.async"}
    return KernelConfig(
        members=(
            f"using Word = {problem.word.c_name};",
            f"static constexpr long long bytes = {problem.bytes}ll;",
            *(f"static constexpr int {name} = {value};" for name, value in constants.items()),
            f"static constexpr int blocks = {facts['blocks']};",
            *(f"static constexpr bool {name} = {str(value).lower()};" for name, value in switches.items()),
            load_hint_member("x_cache", schedule.text("x_cache")),
            store_hint_member("out_cache", schedule.text("out_cache")),
        ),
        arguments=problem.operands(),
        call=("x", "out"),
        blocks=facts["blocks"],
        threads=schedule.integer("threads"),
        min_blocks=schedule.integer("min_blocks"),
        dynamic_shared_bytes=facts["shared_bytes"],
    )


def proxy(problem: Copy, schedule: Schedule) -> Copy:
    """``problem`` cut to one block that is full and one that has what is left over in the original."""
    block = schedule.integer("rounds") * schedule.integer("unroll") * schedule.integer("threads")
    elements = block * schedule.integer("vector_bytes") // problem.element_bytes
    if problem.elements <= 2 * elements:
        return problem
    return replace(problem, rows=1, columns=elements + (problem.elements % elements or elements), batch=1)
