"""Generate the kernel of ``autosched/kernels/row_reduction.cuh``, and its distribution over threads, from a config."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.operators.row_reduction import RowProblem
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.device_source import DeviceSource

SOURCE = DeviceSource("autosched/kernels/row_reduction.cuh", "autosched::row_reduction")


def lowering_config(problem: RowProblem, schedule: Schedule) -> LoweringConfig:
    """Return the schedule's distribution over the axes (parallel, reduced), which matches the kernel's indices.

    Vectors and the fastest-varying lanes are along the contiguous axis. ``workgroup`` tiles the parallel axis, and the
    loop advances along the reduced axis by ``partial_reduction``.
    """
    lanes, subgroups, subgroups_m, batch, vector, unroll = (
        schedule.integer(name) for name in ("lanes_k", "subgroups_k", "subgroups_m", "batch", "vector_x", "unroll")
    )
    parallel_lanes = 32 // lanes
    thread = (1, vector) if problem.reduces_contiguous else (vector, 1)
    return LoweringConfig(
        workgroup=(subgroups_m * batch * parallel_lanes * thread[0], 0),
        thread=thread,
        lane_basis=(
            Basis.identity((parallel_lanes, lanes))
            if problem.reduces_contiguous
            else Basis(counts=(lanes, parallel_lanes), mapping=(1, 0))
        ),
        subgroup_basis=Basis.identity((subgroups_m, subgroups)),
        partial_reduction=(0, subgroups * unroll * lanes * thread[1]),
    )


def workspaces(problem: RowProblem, config: Config) -> tuple[Operand, ...]:
    """Return the workspaces of split rows: partial states, and one arrival counter per tile of whole rows.

    Blocks of a cluster exchange states through shared memory, so they need no workspaces.
    """
    split, tiles, tile = config.integers("split_k", "tiles", "parallel_tile")
    if split == 1 or config["finish"] == "cluster":
        return ()
    words, tiles = problem.state_words(config.text("passes"))[0], tiles * problem.outer
    return (
        Operand("partials", "workspace", F32, (tiles, split, words, tile)),
        Operand("counters", "workspace", U32, (tiles,), zeroed=True),
    )


def lower(problem: RowProblem, config: Config, device: Device) -> GeneratedKernel:
    """Return the kernel of a valid config."""
    of_problem = ("length", "inner", "parallel_extent", "reduces_contiguous", "normalizes", "has_weight", "has_bias")
    arguments = (*problem.operands(), *workspaces(problem, config))
    existing = {operand.name for operand in arguments}
    call = ("x", "weight", "bias", "out", "partials", "counters")
    return SOURCE.kernel(
        config,
        constants={**{name: getattr(problem, name) for name in of_problem}, "eps": problem.epsilon},
        types={
            "T": problem.input_dtype.c_name,
            "Out": problem.out_dtype.c_name,
            "Op": f"autosched::{problem.functor(config.text('passes'))}",
        },
        arguments=arguments,
        call=tuple(name if name in existing else "nullptr" for name in call),
        blocks=config.integer("blocks"),
        cluster=(config.integer("split_k") if config["finish"] == "cluster" else 1, 1, 1),
        cooperating=(config.integer("split_k"), 1),
        launches=2 if config["finish"] == "second_launch" else 1,
    )
