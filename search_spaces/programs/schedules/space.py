"""The search space of a tile program: parameters, attributes, validity constraints and pruning rules."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from search_spaces.hardware.devices import Device
from search_spaces.programs.inference.inference import Inference, Product
from search_spaces.programs.planning import estimates
from search_spaces.programs.planning.choices import Choices, choices_of
from search_spaces.programs.planning.estimates import Needs
from search_spaces.programs.planning.instructions import fragments
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.box_pruning import box_pruning
from search_spaces.programs.schedules.boxes import box_rules, without_boxes, workers
from search_spaces.programs.schedules.decisions import (
    attributes,
    constants,
    parameters,
    shaping_names,
    staged_operands,
)
from search_spaces.programs.schedules.fragments import fragment_pruning, fragment_rules
from search_spaces.programs.schedules.needs import each_needs
from search_spaces.programs.schedules.operands import operand_pruning, split_pruning, split_rules, staged_rules
from search_spaces.programs.schedules.persistence import persistent_pruning, persistent_rules
from search_spaces.programs.schedules.sizes import anchor_count
from search_spaces.programs.schedules.streams import stream_pruning, stream_rules
from search_spaces.programs.schedules.tile_pruning import tile_pruning
from search_spaces.programs.schedules.wmma import wmma_pruning, wmma_rules
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.device_choices import offered
from search_spaces.templates.common.launch_rules import device_rules

MOST_REGISTERS = 1024  # limit on registers for a thread's values, because the code has separate instructions for each


@lru_cache(maxsize=64)
def space(problem: ProgramProblem, device: Device) -> Space:
    """Return the space of all schedules of ``problem`` on ``device``."""
    choices, operands = choices_of(problem), staged_operands(problem)
    products, threads = choices.first.products, workers(choices, device)
    return Space(
        problem.program.name,
        offered(parameters(problem, device), device),
        attributes(problem, device),
        (
            *(rule for p in products for rule in _map_rules(choices, p)),
            *(rule for p in products[1:] for rule in _equal_warps(products[0], p, threads)),
            *(_intrinsic_rule(device, p) for p in products),
            *(without_boxes(rule, choices, device) for s in operands for rule in staged_rules(s, threads)),
            *box_rules(choices, device),
            *wmma_rules(choices, device),
            *fragment_rules(choices),
            *(rule for a in range(anchor_count(choices)) for rule in _blocked_rules(a)),
            *split_rules(choices),
            *stream_rules(choices, device),
            *persistent_rules(choices),
            _plan_rule(problem, device),
            *device_rules(device),
        ),
        (
            *tile_pruning(problem, device),
            *split_pruning(choices, device),
            *stream_pruning(choices, device),
            *persistent_pruning(choices, device),
            *(without_boxes(rule, choices, device) for s in operands for rule in operand_pruning(s, threads, device)),
            *box_pruning(choices, device),
            *wmma_pruning(choices, device),
            *fragment_pruning(choices, device),
        ),
        stratified_by="intrinsic" if products else "min_blocks",
        constants=constants(problem),
        described=f"{problem.program.name} ({problem.program.location})",
    )


def _map_rules(choices: Choices, product: Product) -> tuple[Rule, ...]:
    def dealt(axis: str, d: int) -> Rule:
        tile = f"tile_{axis}{product.suffix}"

        def why_not(tile: int, groups: int, intrinsic: str) -> str | None:
            row = fragments(intrinsic)
            size = (row.m, row.n)[d]
            if tile % (groups * size):
                return (
                    f"the {tile} elements along {axis} of the mma at {product.source} cannot be divided into whole "
                    f"fragments of {size} for {groups} subgroups"
                )
            return None

        name = ("subgroups_m", "subgroups_n")[d] + product.suffix
        return Rule.refusing(
            f"wg_map_{axis}{product.suffix}",
            why_not,
            "each subgroup has whole fragments",
            names={"tile": tile, "groups": name, "intrinsic": "intrinsic"},
        )

    def why_not(intrinsic: str) -> str | None:
        row = fragments(intrinsic)
        data = product.user_map.sg_data  # type: ignore[union-attr]
        if data[0] % row.m or data[1] % row.n:
            return f"sub-tiles of {data[0]}x{data[1]} cannot be divided into whole fragments of {row.m}x{row.n}"
        return None

    if product.user_map is not None:
        return (Rule.refusing(f"wg_map{product.suffix}", why_not, "the program's map consists of whole fragments"),)
    return dealt("m", 0), dealt("n", 1)


def _equal_warps(first: Product, other: Product, threads: str) -> tuple[Rule, ...]:
    if first.user_map is not None and other.user_map is not None:
        return ()  # no rule: ``planning.verify`` has already checked the user's maps
    if first.user_map is not None or other.user_map is not None:
        product, user_map = (first, other.user_map) if first.user_map is None else (other, first.user_map)
        assert user_map is not None
        count = estimates.map_warps(user_map)
        return (
            Rule(
                f"subgroups{product.suffix}",
                lambda rows, columns: np.equal(rows * columns, count),
                f"{{rows}} x {{columns}} subgroups differ from the program's map, which has {count} subgroups",
                names={"rows": f"subgroups_m{product.suffix}", "columns": f"subgroups_n{product.suffix}"},
            ),
        )
    return (
        Rule(
            f"subgroups{other.suffix}",
            lambda rows, columns, threads: np.equal(rows * columns * 32, threads),
            "{rows} x {columns} subgroups do not add up to the {threads} threads of the block",
            names={"rows": f"subgroups_m{other.suffix}", "columns": f"subgroups_n{other.suffix}", "threads": threads},
        ),
    )


def _intrinsic_rule(device: Device, product: Product) -> Rule:
    def why_not(tile_k: int, intrinsic: str) -> str | None:
        row = fragments(intrinsic)
        if tile_k % row.k:
            return f"the depth {tile_k} of the mma at {product.source} is not a multiple of {row.k} ({intrinsic})"
        return row.why_not(device)

    return Rule.refusing(
        f"intrinsic{product.suffix}",
        why_not,
        "the device has the instruction, and the tile's depth is a multiple of the instruction's depth",
        names={"tile_k": f"tile_k{product.suffix}", "intrinsic": "intrinsic"},
    )


def _blocked_rules(number: int) -> tuple[Rule, ...]:
    return (
        Rule(
            f"block_{number + 1}",
            lambda line, lanes, width: np.equal(line % (lanes * width), 0),
            "{lanes} lanes with {width} elements each do not divide a line of {line}",
            names={"line": f"line_{number + 1}", "lanes": f"lanes_{number + 1}", "width": f"width_{number + 1}"},
        ),
    )


def _plan_rule(problem: ProgramProblem, device: Device) -> Rule:
    choices = choices_of(problem)

    def allows(_: Inference, needs: Needs) -> bool:
        return needs.why_not is None and needs.registers <= MOST_REGISTERS

    reason = "groups of a reduction are split among subgroups, or a thread has too many elements"
    return Rule(
        "plan",
        each_needs(choices, allows),
        reason,
        "distributions fit the operations",
        names=shaping_names(problem, device),
    )
