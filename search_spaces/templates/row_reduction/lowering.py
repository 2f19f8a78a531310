"""From a schedule to the constants of ``autosched/kernels/row_reduction.cuh``, its arguments and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from search_spaces.catalogue import KernelConfig
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.operators.problem import Operand
from search_spaces.operators.row_reduction import RowProblem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.cache_hints import load_hint_member, store_hint_member
from search_spaces.templates.row_reduction.space import combine_at, space, valid_space


@dataclass(frozen=True)
class RowPlan:
    """What follows from one schedule. Everything after the space reads this.

    ``tiles`` are the blocks of one outer index before rows are split; ``chunk``, ``step`` and ``steps`` are along the
    reduced axis, for one block.
    """

    problem: RowProblem
    schedule: Schedule
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
        return self.schedule.integer("vector")

    @property
    def split(self) -> int:
        return self.schedule.integer("split")

    @property
    def peeled(self) -> bool:
        return self.schedule["peel"] == "yes"

    @property
    def keep(self) -> str:
        return self.schedule.text("keep")

    @property
    def state_words(self) -> tuple[int, ...]:
        return self.problem.state_words(self.schedule.text("passes"))


@lru_cache(maxsize=4096)
def plan(problem: RowProblem, schedule: Schedule, device: Device) -> RowPlan:
    """The plan of a schedule that keeps the laws of ``problem`` (``config`` asks them; cost models need not again)."""
    facts = space(problem, device).describe(schedule)  # which attributes there are does not depend on the rules
    split = schedule.integer("split")
    return RowPlan(
        problem=problem,
        schedule=schedule,
        threads=facts["threads"],
        blocks=facts["blocks"],
        registers=facts["registers"],
        shared_bytes=facts["shared_bytes"],
        combine_at=int(combine_at(np.array(split))),
        combine_bytes=facts["combine_bytes"],
        keep_at=facts["keep_at"],
        kept_tile=facts["kept_tile"],
        tiles=-(-problem.kept_extent // facts["kept_tile"]),
        chunk=facts["chunk"],
        step=facts["step"],
        steps=facts["steps"],
        states=facts["states"],
    )


def lowering_config(problem: RowProblem, schedule: Schedule) -> LoweringConfig:
    """The schedule's distribution over (kept, reduced): what the kernel's index arithmetic does.

    The axis of contiguous memory has the vectors and the fastest lanes; the kept axis is tiled by ``workgroup``, the
    reduced one walked by ``partial_reduction``.
    """
    lanes, subgroups, kept_subgroups, batch, vector, unroll = (
        schedule.integer(name) for name in ("lanes", "subgroups", "kept_subgroups", "batch", "vector", "unroll")
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


def config(problem: RowProblem, schedule: Schedule, device: Device) -> KernelConfig:
    """Constants, arguments and launch of ``schedule``.

    Raises ValueError with the rule's name and reason if the schedule breaks a law of ``problem``.
    """
    valid_space(problem, device).validate(schedule)
    p = plan(problem, schedule, device)
    names = ("lanes", "subgroups", "kept_subgroups", "batch", "vector", "unroll", "split")
    constants = {
        **{name: getattr(problem, name) for name in ("length", "inner", "kept_extent")},
        **{name: schedule.integer(name) for name in names},
        **{name: getattr(p, name) for name in ("kept_tile", "chunk", "combine_at", "keep_at")},
    }
    switches = {name: getattr(problem, name) for name in ("along", "normalizes", "has_weight", "has_bias")}
    switches["peel"] = p.peeled
    members = (
        f"using T = {problem.input_dtype.c_name};",
        f"using Out = {problem.out_dtype.c_name};",
        f"using Op = autosched::{problem.operator(schedule.text('passes'))};",
        *(f"static constexpr int {name} = {value};" for name, value in constants.items()),
        *(f"static constexpr bool {name} = {str(value).lower()};" for name, value in switches.items()),
        f"static constexpr float eps = {problem.epsilon!r}f;",
        f"static constexpr autosched::Keep keep = autosched::Keep::{p.keep};",
        f"static constexpr autosched::Finish finish = autosched::Finish::{schedule.text('finish')};",
        load_hint_member("x_cache", schedule.text("x_cache")),
        store_hint_member("out_cache", schedule.text("out_cache")),
    )
    arguments = (*problem.operands(), *workspaces(p))
    there = {operand.name for operand in arguments}
    call = ("x", "weight", "bias", "out", "partials", "counters")
    return KernelConfig(
        members=members,
        arguments=arguments,
        call=tuple(name if name in there else "nullptr" for name in call),
        blocks=p.blocks,
        threads=p.threads,
        min_blocks=schedule.integer("min_blocks"),
        dynamic_shared_bytes=p.shared_bytes,
        launches=2 if schedule["finish"] == "second_launch" else 1,
    )
