"""From a schedule to the constants of ``autosched/kernels/row_reduction.cuh``, its arguments and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.operators.problem import Operand
from search_spaces.operators.row_reduction import RowProblem
from search_spaces.spaces.config import Config
from search_spaces.templates.common.cache_hints import load_hint_member, store_hint_member
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.row_reduction.space import combine_at

SOURCE = DeviceSource("autosched/kernels/row_reduction.cuh", "autosched::row_reduction")


@dataclass(frozen=True)
class RowPlan:
    """What follows from one schedule. Everything after the space reads this.

    ``tiles`` are the blocks of one outer index before rows are split; ``chunk``, ``step`` and ``steps`` are along the
    reduced axis, for one block.
    """

    problem: RowProblem
    config: Config
    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    combine_at: int
    combine_bytes: int
    keep_at: int
    kept_tile: int
    tiles: int
    chunk: int
    step: int
    steps: int
    states: int

    @property
    def vector(self) -> int:
        return self.config.integer("vector")

    @property
    def split(self) -> int:
        return self.config.integer("split")

    @property
    def peeled(self) -> bool:
        return self.config["peel"] == "yes"

    @property
    def keep(self) -> str:
        return self.config.text("keep")

    @property
    def state_words(self) -> tuple[int, ...]:
        return self.problem.state_words(self.config.text("passes"))


@lru_cache(maxsize=4096)
def plan(problem: RowProblem, config: Config) -> RowPlan:
    """The plan of a valid config."""
    split = config.integer("split")
    return RowPlan(
        problem=problem,
        config=config,
        threads=config.integer("threads"),
        blocks=config.integer("blocks"),
        registers=config.integer("registers"),
        shared_bytes=config.integer("shared_bytes"),
        combine_at=int(combine_at(np.array(split))),
        combine_bytes=config.integer("combine_bytes"),
        keep_at=config.integer("keep_at"),
        kept_tile=config.integer("kept_tile"),
        tiles=-(-problem.kept_extent // config.integer("kept_tile")),
        chunk=config.integer("chunk"),
        step=config.integer("step"),
        steps=config.integer("steps"),
        states=config.integer("states"),
    )


def lowering_config(problem: RowProblem, config: Config) -> LoweringConfig:
    """The schedule's distribution over (kept, reduced): what the kernel's index arithmetic does.

    The axis of contiguous memory has the vectors and the fastest lanes; the kept axis is tiled by ``workgroup``, the
    reduced one walked by ``partial_reduction``.
    """
    lanes, subgroups, kept_subgroups, batch, vector, unroll = (
        config.integer(name) for name in ("lanes", "subgroups", "kept_subgroups", "batch", "vector", "unroll")
    )
    kept_lanes = 32 // lanes
    thread = (1, vector) if problem.along else (vector, 1)
    lane_basis = (
        Basis.identity((kept_lanes, lanes)) if problem.along else Basis(counts=(lanes, kept_lanes), mapping=(1, 0))
    )
    return LoweringConfig(
        workgroup=(kept_subgroups * batch * kept_lanes * thread[0], 0),
        thread=thread,
        lane_basis=lane_basis,
        subgroup_basis=Basis.identity((kept_subgroups, subgroups)),
        partial_reduction=(0, subgroups * unroll * lanes * thread[1]),
    )


def workspaces(p: RowPlan) -> tuple[Operand, ...]:
    """Partial states and arrival counters of split rows; one counter for every tile before the split."""
    if p.split == 1:
        return ()
    tiles = p.tiles * p.problem.outer
    return (
        Operand("partials", "workspace", F32, (tiles, p.split, p.state_words[0], p.kept_tile)),
        Operand("counters", "workspace", U32, (tiles,), zeroed=True),
    )


def lower(problem: RowProblem, config: Config, device: Device) -> Kernel:
    """The kernel of a valid config."""
    p = plan(problem, config)
    names = ("lanes", "subgroups", "kept_subgroups", "batch", "vector", "unroll", "split")
    constants = {
        **{name: getattr(problem, name) for name in ("length", "inner", "kept_extent")},
        **{name: config.integer(name) for name in names},
        **{name: getattr(p, name) for name in ("kept_tile", "chunk", "combine_at", "keep_at")},
    }
    switches = {name: getattr(problem, name) for name in ("along", "normalizes", "has_weight", "has_bias")}
    switches["peel"] = p.peeled
    members = (
        f"using T = {problem.input_dtype.c_name};",
        f"using Out = {problem.out_dtype.c_name};",
        f"using Op = autosched::{problem.functor(config.text('passes'))};",
        *(f"static constexpr int {name} = {value};" for name, value in constants.items()),
        *(f"static constexpr bool {name} = {str(value).lower()};" for name, value in switches.items()),
        f"static constexpr float eps = {problem.epsilon!r}f;",
        f"static constexpr autosched::Keep keep = autosched::Keep::{p.keep};",
        f"static constexpr autosched::Finish finish = autosched::Finish::{config.text('finish')};",
        load_hint_member("x_cache", config.text("x_cache")),
        store_hint_member("out_cache", config.text("out_cache")),
    )
    arguments = (*problem.operands(), *workspaces(p))
    there = {operand.name for operand in arguments}
    call = ("x", "weight", "bias", "out", "partials", "counters")
    return SOURCE.kernel(
        "row_reduction",
        members=members,
        arguments=arguments,
        call=tuple(name if name in there else "nullptr" for name in call),
        blocks=p.blocks,
        threads=p.threads,
        min_blocks=config.integer("min_blocks"),
        dynamic_shared_bytes=p.shared_bytes,
        launches=2 if config["finish"] == "second_launch" else 1,
    )
