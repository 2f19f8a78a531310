"""Pruning rules on tiles, threads and loops. They exclude schedules that are not faster than a simpler schedule."""

from __future__ import annotations

from math import gcd

import numpy as np

from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Product, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.planning import estimates
from search_spaces.programs.planning.choices import Choices, choices_of
from search_spaces.programs.planning.distributions import warps_across
from search_spaces.programs.planning.instructions import is_boxed
from search_spaces.programs.planning.memory import EXCHANGES, MANY_STAGES, stage_counts, stage_names
from search_spaces.programs.planning.scratch import flag_bytes
from search_spaces.programs.planning.tails import MASKED, PEELED, tail_names
from search_spaces.programs.planning.unrolling import unrollable
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.boxes import without_boxes, workers
from search_spaces.programs.schedules.decisions import (
    parameters,
)
from search_spaces.programs.schedules.shared_memory import exchange_loops, scratch_name
from search_spaces.programs.schedules.sizes import anchor_count, lane_counts
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule
from search_spaces.templates.common.raster import RASTER_GROUPS

FEW_THREADS = 128  # number of threads if each scheduler of an SM has one warp
ROWS_OF_FRAGMENT = 16  # smallest number of rows that a warp multiplies with one instruction
LEAST_RESULTS = 32  # smallest number of results per thread with which fragment reads are fast enough for mma.sync
BODY_LIMIT = 1024  # limit of product instructions in an unrolled loop body, due to the instruction cache
WANTED_REGISTERS = 255
LEAST_BLOCKS = 2  # if rings have MANY_STAGES, this number of blocks must fit on an SM
UNROLLED_VALUES = 128  # limit on the registers of a loop body times its unroll factor, due to the instruction cache


def tile_pruning(problem: ProgramProblem, device: Device) -> tuple[Rule, ...]:
    """Return the pruning rules on tiles, subgroups, rings, tails, unrolling, registers, exchanges and rasters."""
    choices = choices_of(problem)
    first = choices.first
    rules: list[Rule] = []
    # add a rule for each chosen size: a tile of half the size must be too small to cover the extent
    for name, values in choices.domains.items():
        for axis in range(len(first.trace.tile)):
            sizes = {v: i.trace.tile[axis] for v, i in choices.inferences.items()}
            index = list(choices.domains).index(name)
            if first.trace.is_dynamic:
                break  # no rule for a dynamic size, as schedules must suit all of its values
            if all(tile == v[index] for v, tile in sizes.items()):
                extent, least = first.trace.extent[axis], min(values)
                rules.append(
                    Rule(
                        f"tile_size_{name}",
                        lambda tile, extent=extent, least=least: (tile < 2 * extent) | (tile == least),
                        f"{name} is {{tile}}, but half of it already covers {extent}",
                        names={"tile": name},
                    )
                )
                break
    for p in first.products:
        names = {
            "m": f"tile_m{p.suffix}",
            "n": f"tile_n{p.suffix}",
            "k": f"tile_k{p.suffix}",
            "threads": workers(choices, device),
        }
        if p.user_map is None:
            code_size = Rule(
                f"code_size{p.suffix}",
                lambda m, n, k, threads: m * n * k // threads * 32 <= BODY_LIMIT * 16 * 8 * 16,
                f"the unrolled body of a {{m}}x{{n}}x{{k}} tile and {{threads}} threads has more than {BODY_LIMIT} "
                "products",
                names=names,
            )
            rules.append(without_boxes(code_size, choices, device))
            rules.append(
                Rule(
                    f"warp_part{p.suffix}",
                    lambda m, n, threads: (threads <= FEW_THREADS) | (m * n >= LEAST_RESULTS * threads),
                    "each of {threads} threads has fewer than 32 accumulators of a {m}x{n} tile: use fewer "
                    "subgroups, which read less from shared memory",
                    names={k: v for k, v in names.items() if k != "k"},
                )
            )
            if _is_reduced(choices, p):
                rules.append(
                    Rule(
                        f"whole_rows{p.suffix}",
                        lambda m, columns: (columns == 1) | (m < FEW_THREADS // WARP * ROWS_OF_FRAGMENT),
                        "with {columns} subgroups side by side, row reductions cross subgroups: use one subgroup along "
                        "the columns, because {m} rows are enough to give each scheduler a warp",
                        names={"m": names["m"], "columns": f"subgroups_n{p.suffix}"},
                    )
                )
    for one, other in sorted(_chained(choices)):
        rules.append(
            Rule(
                f"chained_{one + 1}_{other + 1}",
                lambda rows, other_rows: np.equal(rows, other_rows),
                "a product has {rows} subgroups along its rows, but a product that uses its results has {other_rows}: "
                "use equal numbers, so that results need no exchange through shared memory",
                names={
                    "rows": f"subgroups_m{first.products[one].suffix}",
                    "other_rows": f"subgroups_m{first.products[other].suffix}",
                },
            )
        )
    for loop, name in stage_names(first).items():
        rules.append(
            Rule(
                f"{name}_overlap",
                lambda stages, iterations: (stages >= 2) | (iterations < 2),
                "with {stages} stage, each of the {iterations} iterations waits for the full memory latency",
                names={"stages": name, "iterations": name.replace("stages", "turns")},
            )
        )
        rules.append(
            Rule(
                f"{name}_used",
                lambda stages, iterations: stages <= np.maximum(iterations, 2),
                "{stages} stages are more than the {iterations} iterations",
                names={"stages": name, "iterations": name.replace("stages", "turns")},
            )
        )
        if MANY_STAGES in stage_counts(first, loop):
            room = device.shared_per_sm // LEAST_BLOCKS
            rules.append(
                Rule(
                    f"{name}_many",
                    lambda stages, ring_bytes, room=room: (stages < MANY_STAGES) | (ring_bytes <= room),
                    f"a ring of {{ring_bytes}} bytes leaves room for fewer than {LEAST_BLOCKS} blocks per SM: use "
                    "fewer stages, which already keep enough bytes in flight",
                    names={"stages": name, "ring_bytes": name.replace("stages", "ring_bytes")},
                )
            )
    for index, name in tail_names(choices.inferences.values()).items():
        rules += _tail_rules(choices, index, name)
    for name in unrollable(first).values():
        rules.append(
            Rule(
                f"{name}_code",
                lambda unroll, live: (unroll == 1) | (unroll * (live - estimates.OVERHEAD) <= UNROLLED_VALUES),
                "{unroll} unrolled bodies of a loop with about {live} registers overflow the instruction cache",
                names={"unroll": name, "live": "live_registers"},
            )
        )
    for a in range(anchor_count(choices)):
        rules.append(_few_copies(a, workers(choices, device), lane_counts(choices, a)))
    rules.append(
        Rule(
            "registers_wanted",
            lambda registers: registers <= WANTED_REGISTERS,
            "about {registers} registers per thread: ptxas would spill",
        )
    )
    if any(p.name == "exchange" for p in parameters(problem, device)):
        flag = flag_bytes(first)
        rules.append(
            Rule(
                "exchange_used",
                lambda exchange, **scratch: (sum(scratch.values()) > flag) | (exchange == EXCHANGES[0]),
                "nothing is exchanged through shared memory, so the layout {exchange} has no effect",
                names={"exchange": "exchange", **{p: scratch_name(p) for p in exchange_loops(first)}},
            )
        )
    if len(first.trace.blocks) > 1:
        rules.append(_raster_rule())
    return tuple(rules)


def _tail_rules(choices: Choices, index: int, name: str) -> list[Rule]:
    """Return rules that drop peeling if it has no benefit, or if no iterations precede the peeled ones."""
    rules: list[Rule] = []
    if choices.shaping:
        rules.append(
            Rule(
                f"{name}_peelable",
                lambda tail, peelable: (tail == MASKED) | (peelable == 1),
                "with these sizes, the last iteration of the loop needs no more masks than the other iterations",
                names={"tail": name, "peelable": f"peelable_{name}"},
            )
        )
    if choices.first.products:
        rules.append(
            Rule.refusing(
                f"{name}_way",
                lambda tail, intrinsic: (
                    f"{intrinsic} reads boxes, which need no masks, so peeling has no effect"
                    if tail == PEELED and is_boxed(intrinsic)
                    else None
                ),
                "loops whose operands are boxes are not peeled",
                names={"tail": name, "intrinsic": "intrinsic"},
            )
        )
    ring = stage_names(choices.first).get(list(choices.first.loops)[index])
    if ring is not None:
        rules.append(
            Rule(
                f"{name}_iterations",
                lambda tail, stages, iterations: (tail == MASKED) | (iterations > stages),
                "the ring has {stages} stages, so all {iterations} iterations belong to the peeled end of the loop",
                names={"tail": name, "stages": ring, "iterations": ring.replace("stages", "turns")},
            )
        )
    return rules


def _raster_rule() -> Rule:
    def why_not(down: int, across: int, raster: str) -> str | None:
        if raster == "row" or (across > 1 and RASTER_GROUPS[raster] < down):
            return None
        return f"raster {raster} gives {down} x {across} tiles the same order as a simpler raster"

    return Rule.refusing("raster", why_not, names={"down": "grid_rows", "across": "grid_columns", "raster": "raster"})


def _chained(choices: Choices) -> set[tuple[int, int]]:
    """Return pairs of product groups, in which one group uses values computed from the other group's results."""
    pairs = set()
    for _, source, target in choices.first.conversions:
        one, other = _product_of(source), _product_of(target)
        if one is None or other is None or one == other:
            continue
        if choices.first.products[one].user_map is None and choices.first.products[other].user_map is None:
            pairs.add((min(one, other), max(one, other)))
    return pairs


def _product_of(spread: Spread) -> int | None:
    while spread.of is not None:
        spread = spread.of
    return spread.number if spread.kind in ("result", "left", "right") else None


def _is_reduced(choices: Choices, product: Product) -> bool:
    """Return True if a loop reduces rows of the product's result."""
    first = choices.first
    for id_, source in first.sources.items():
        operation = first.definitions[id_]
        if (
            isinstance(operation, ir.ReduceTile)
            and operation.dimension == 1
            and first.inside[id_]
            and source.kind == "result"
            and source.number == product.number
        ):
            return True
    return False


def _few_copies(number: int, threads: str, counts: tuple[int, ...]) -> Rule:
    """Return the rule on lanes and widths: as few threads as possible hold copies of other threads' elements."""

    def used(line: int, lines: int, warps: int, lanes: int, width: int) -> int:
        lane_lines = gcd(lines, WARP // lanes)
        warp_lines = gcd(lines // lane_lines, warps)
        return lanes * lane_lines * warp_lines * warps_across(line // (lanes * width), lines, lanes, warps)

    def few(line: int, lines: int, threads: int, lanes: int, width: int) -> bool:
        if line % (lanes * width):
            return True  # a validity constraint already excludes this case
        most = max(
            used(line, lines, threads // WARP, c, w) for c in counts for w in (1, 2, 4, 8) if line % (c * w) == 0
        )
        return used(line, lines, threads // WARP, lanes, width) >= most

    return Rule(
        f"copies_{number + 1}",
        each(few),
        "with {lanes} lanes of {width} elements on a line of {line}, more of the {threads} threads hold copies of "
        "other threads' elements than with other lanes or widths",
        names={
            "line": f"line_{number + 1}",
            "lines": f"lines_{number + 1}",
            "threads": threads,
            "lanes": f"lanes_{number + 1}",
            "width": f"width_{number + 1}",
        },
    )
