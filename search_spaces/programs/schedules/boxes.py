"""Decisions and rules for wgmma and tcgen05, which read operands from boxes.

The main decision is what fills the boxes: all threads, TMA, or TMA in a producer warp. The rules check what boxes and
instructions require.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from search_spaces.arrays import BoolArray
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP as LANES
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.inference.inference import Inference, Product, Spread, Staged
from search_spaces.programs.language import ir
from search_spaces.programs.planning.boxes import (
    BY_THREADS,
    LEAST_BYTES,
    TMA,
    TMA_BYTES,
    WARP,
    can_use_tma,
    line_bytes,
    needs_tma,
    pitch_bytes,
    why_no_boxes,
)
from search_spaces.programs.planning.choices import Choices, unique_operands
from search_spaces.programs.planning.instructions import (
    MOST_COLUMNS,
    TENSOR_COLUMNS,
    WARPS,
    allocated_columns,
    columns_step,
    fragments,
    in_tensor_memory,
    is_boxed,
    rows_of,
)
from search_spaces.programs.planning.memory import stage_names
from search_spaces.programs.planning.ping_pong import PARAMETER as PING_PONG
from search_spaces.programs.planning.ping_pong import WARPGROUPS, alternating
from search_spaces.programs.planning.products_ahead import PARAMETER as PRODUCTS_AHEAD
from search_spaces.programs.planning.products_ahead import ahead
from search_spaces.programs.planning.splits import accumulating
from search_spaces.programs.planning.staging import SHARED
from search_spaces.programs.planning.tensor_memory import tensor_columns, why_not_in_tensor_memory
from search_spaces.programs.schedules.shared_memory import exchange_loops, scratch_name
from search_spaces.spaces.columns import Column, TextColumn
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, Value, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule


def workers(choices: Choices, device: Device) -> str:
    """Return the name of the column with a block's number of threads, not counting a producer warp."""
    return "workers" if choices.first.products and choices.boxed_instructions(device) else "threads"


def filling(choices: Choices, device: Device) -> tuple[Parameter, ...]:
    """Return the decision on how boxes are filled, with the decisions that depend on it.

    Operands that TMA cannot copy are always copied by threads.
    """
    if not choices.boxed_instructions(device) or not choices.first.staged:
        return ()
    # A producer warp would need the indices of p.uniform, but does not hold the tiles from which they are computed.
    alone = bool(stage_names(choices.first)) and not choices.first.uniform
    values = (BY_THREADS, TMA, WARP) if alone else (BY_THREADS, TMA)
    filled = categorical(
        "filled_by",
        values,
        "how boxes are filled: by all threads, by TMA, or by a producer warp that issues TMA copies",
    )
    if alone and may_alternate(choices) and not any(map(in_tensor_memory, choices.boxed_instructions(device))):
        doc = "whether two warpgroups alternate at the tensor cores"
        alternate = ordinal(PING_PONG, (0, 1), doc, before=0)
        if not may_run_ahead(choices):
            return filled, alternate
        doc = "number of iterations by which the first product runs ahead; it then overlaps with the last product"
        return filled, alternate, ordinal(PRODUCTS_AHEAD, (0, 1), doc, before=0)
    if not may_overlap_iterations(choices):
        return (filled,)
    return filled, ordinal(
        "in_flight", (0, 1), "iterations whose products may still be in flight when the next iteration begins"
    )


def may_overlap_iterations(choices: Choices) -> bool:
    """Return True if the only loop with a ring does nothing but accumulate products."""
    return all(len(names := stage_names(i)) == 1 and set(names) <= accumulating(i) for i in choices.inferences.values())


def may_alternate(choices: Choices) -> bool:
    """Return True if two warpgroups can alternate at the tensor cores in the program's only loop."""
    return all(alternating(inference) is not None for inference in choices.inferences.values())


def may_run_ahead(choices: Choices) -> bool:
    """Return True if the first product of the loop with a ring can be computed one iteration ahead."""
    return all(ahead(inference) is not None for inference in choices.inferences.values())


def threads(choices: Choices, device: Device) -> tuple[Attribute, ...]:
    """Return the attribute with the number of threads of a block, if the column ``workers`` exists."""
    if workers(choices, device) == "threads":
        return ()
    doc = "threads of a block"
    if not filling(choices, device):
        return (Attribute("threads", lambda workers: 1 * workers, doc),)
    return (Attribute("threads", lambda workers, filled_by: workers + LANES * (filled_by == WARP), doc),)


def without_boxes(rule: Rule, choices: Choices, device: Device) -> Rule:
    """Limit a rule on copies or fragments to schedules without boxes. Operands in boxes have no copies or fragments."""
    if not choices.boxed_instructions(device):
        return rule
    boxed, inputs = each(is_boxed), dict(rule.inputs)
    key = next((p for p, column in inputs.items() if column == "intrinsic"), "intrinsic")

    def allows(**columns: Column) -> BoolArray:
        way = columns[key]
        assert isinstance(way, TextColumn)
        own = {p: columns[p] for p in inputs}
        if key in own:
            own[key] = TextColumn(way.codes, tuple(fragments(v).name for v in way.values))
        answer: BoolArray = boxed(way) | np.asarray(rule.function(**own))
        return answer

    return Rule(rule.name, allows, rule.reason, rule.doc, names={**inputs, key: "intrinsic"})


@cache
def why_not_boxed(inference: Inference) -> str | None:
    """Return why no schedule can use an instruction that reads boxes; None if some schedule can."""
    for operation in inference.definitions.values():
        if not isinstance(operation, ir.Mma):
            continue
        spread = Spread("right", operation.b.shape, inference.product_of[operation.result.id])
        producer = inference.definitions[operation.b.id]
        source = producer.value if isinstance(producer, ir.TransposeTile) else operation.b
        key = (source.id, spread.swap() if isinstance(producer, ir.TransposeTile) else spread)
        strided = next((s for s in inference.staged.values() if needs_tma(s) and not can_use_tma(s)), None)
        if strided is not None:
            return (
                f"boxes of {strided.name} need TMA, because its row stride is dynamic, and TMA needs a stride that is "
                f"a multiple of {TMA_BYTES} bytes"
            )
        if key not in inference.staged:
            return (
                f"wgmma and tcgen05 read b from shared memory, so a load must copy it there: b of the mma at "
                f"{operation.source} is computed, or its window cannot be copied to shared memory"
            )
    return None


def box_rules(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return the validity rules of boxes, TMA and a producer warp."""
    if not choices.boxed_instructions(device) or not choices.first.products:
        return ()
    rules = [_way_rule(choices)]
    if any(map(in_tensor_memory, choices.boxed_instructions(device))):
        rules.append(_tensor_memory_rule(choices))
    for p in choices.first.products:
        rules += _map_rules(p)
    for s in boxed_operands(choices):
        rules += _operand_rules(s)
    if filling(choices, device):
        rules.append(_filling_rule(choices))
        if may_overlap_iterations(choices):
            rules.append(_flight_rule(stage_names(choices.first)))
        if any(parameter.name == PING_PONG for parameter in filling(choices, device)):
            rules.append(_ping_pong_rule(choices, device))
        if any(parameter.name == PRODUCTS_AHEAD for parameter in filling(choices, device)):
            rules.append(_ahead_rule(choices))
    return tuple(rules)


def boxed_operands(choices: Choices) -> list[Staged]:
    """Return the operands that are stored in boxes: all except converted operands, which are loaded to registers."""
    return [s for s in unique_operands(choices.first) if not s.converted]


def _way_rule(choices: Choices) -> Rule:
    inferences = choices.inferences.values()
    reason = next((r for r in map(why_not_boxed, inferences) if r is not None), None)
    elsewhere = next((r for r in map(why_not_in_tensor_memory, inferences) if r is not None), None)

    def why_not(intrinsic: str) -> str | None:
        if not is_boxed(intrinsic):
            return None
        return reason or (elsewhere if in_tensor_memory(intrinsic) else None)

    return Rule.refusing(
        "boxed_products", why_not, "wgmma and tcgen05 read b from shared memory, so a load must copy b there"
    )


def _tensor_memory_rule(choices: Choices) -> Rule:
    def why_not(intrinsic: str, min_blocks: int, **values: Value) -> str | None:
        if not in_tensor_memory(intrinsic):
            return None
        inference = choices.inference(values)
        if why_not_in_tensor_memory(inference) is not None:
            return None  # the rule "boxed_products" excludes this case
        multiple = columns_step(intrinsic)
        odd = next((p.shape[1] for p in inference.products if p.shape[1] % multiple), None)
        if odd is not None:
            return f"{odd} columns are not a multiple of {multiple}, which {intrinsic} needs"
        columns = sum(tensor_columns(inference, intrinsic).values())
        if allocated_columns(columns) * min_blocks <= TENSOR_COLUMNS:
            return None
        return (
            f"{min_blocks} blocks with {allocated_columns(columns)} columns each (a power of two) exceed the "
            f"{TENSOR_COLUMNS} columns of tensor memory of an SM"
        )

    return Rule.refusing(
        "tensor_memory",
        with_home(why_not),
        "the sums of all resident blocks fit in tensor memory",
        names={"intrinsic": "intrinsic", "min_blocks": "min_blocks", **{n: n for n in choices.shaping}},
    )


def _map_rules(p: Product) -> list[Rule]:
    if p.user_map is not None:
        user_map = p.user_map

        def fits(intrinsic: str) -> str | None:
            if not is_boxed(intrinsic) or (
                isinstance(user_map, WgMap)
                and user_map.sg_data[0] == rows_of(intrinsic) // WARPS
                and user_map.sg_layout[1] == 1
                and user_map.sg_layout[0] % WARPS == 0
            ):
                return None
            rows = rows_of(intrinsic)
            return (
                f"the program's map must have groups of {WARPS} warps, and must give each warp of a group "
                f"{rows // WARPS} of {rows} rows with all columns"
            )

        return [Rule.refusing(f"warpgroups{p.suffix}", fits, "warpgroups have 64 rows")]

    def why_not(rows: int, columns: int, tile_m: int, tile_n: int, intrinsic: str) -> str | None:
        if not is_boxed(intrinsic):
            return None
        of_group = rows_of(intrinsic)
        if columns != 1 or rows % WARPS:
            return (
                f"{rows} x {columns} subgroups are not whole warpgroups: {intrinsic} divides {of_group} rows among "
                f"{WARPS} subgroups"
            )
        if tile_m % (of_group * (rows // WARPS)):
            return (
                f"{tile_m} rows of the tile cannot be divided among {rows // WARPS} warpgroups so that each has a "
                f"multiple of {of_group} rows"
            )
        if tile_n > MOST_COLUMNS:
            return f"{intrinsic} multiplies at most {MOST_COLUMNS} columns, not {tile_n}"
        return None

    names = {
        "rows": f"subgroups_m{p.suffix}",
        "columns": f"subgroups_n{p.suffix}",
        "tile_m": f"tile_m{p.suffix}",
        "tile_n": f"tile_n{p.suffix}",
        "intrinsic": "intrinsic",
    }
    return [Rule.refusing(f"warpgroups{p.suffix}", why_not, "warpgroups have 64 rows", names=names)]


def _operand_rules(s: Staged) -> list[Rule]:
    name, home = s.name, {} if s.loop is not None else {"home": f"home_{s.name}"}

    def boxes(layout: str, rows: int, cols: int, intrinsic: str, home: str = SHARED) -> str | None:
        if not is_boxed(intrinsic):
            return None
        if home != SHARED and (s.side == "b" or in_tensor_memory(intrinsic)):
            return f"{intrinsic} reads {name} from shared memory"
        return why_no_boxes(s, layout, rows, cols)

    columns = {"layout": f"layout_{name}", "rows": f"rows_{name}", "cols": f"cols_{name}", "intrinsic": "intrinsic"}
    return [
        Rule.refusing(
            f"boxes_{name}",
            boxes if not home else with_home(boxes),
            f"the tile of {name} consists of whole boxes",
            names={**columns, **home},
        ),
    ]


def with_home(why_not: Callable[..., str | None]) -> Callable[..., str | None]:
    """Return ``why_not`` with a signature of only ``**columns``, so that a rule passes all columns in its ``names``.

    Otherwise a rule would not pass ``home``, because this parameter has a default.
    """

    def of_all(**columns: Value) -> str | None:
        return why_not(**columns)

    return of_all


def _filling_rule(choices: Choices) -> Rule:
    operands = boxed_operands(choices)
    by_tma = [s for s in operands if can_use_tma(s)]

    def why_not(filled_by: str, intrinsic: str) -> str | None:
        if not is_boxed(intrinsic):
            return None if filled_by == BY_THREADS else f"{filled_by} fills boxes, but {intrinsic} does not read boxes"
        by_threads = operands if filled_by == BY_THREADS else [s for s in operands if s not in by_tma]
        if filled_by != BY_THREADS and not by_tma:
            return f"TMA cannot copy any operand: the distance between rows must be a multiple of {TMA_BYTES} bytes"
        for s in by_threads:
            if needs_tma(s):
                return f"threads cannot copy {s.name}, whose row stride is dynamic"
            if line_bytes(s) < LEAST_BYTES:
                return f"cp.async needs an alignment of {LEAST_BYTES} bytes, but {s.name} has {line_bytes(s)}"
            if filled_by == WARP and s.advance == "gathered":
                return f"a producer warp copies by TMA, which cannot gather single rows of {s.name}"
            if filled_by == WARP and s.loop is not None:
                return f"a producer warp needs TMA, but rows of {s.name} are {pitch_bytes(s)} bytes apart"
        return None

    return Rule.refusing("filled_by", why_not, "the chosen method of filling boxes can copy all operands")


def _flight_rule(stages: Mapping[int, str]) -> Rule:
    def why_not(in_flight: int, filled_by: str, stages: int, intrinsic: str) -> str | None:
        if not in_flight and filled_by == WARP and in_tensor_memory(intrinsic):
            return f"with {filled_by} and {intrinsic}, completed multiplications release stages: use in_flight 1"
        if in_flight and filled_by != WARP:
            return f"iterations in flight need a producer warp that fills released stages, not {filled_by}"
        if in_flight and stages < 2:
            return "an iteration in flight occupies the only stage"
        return None

    (name,) = stages.values()
    names = {"in_flight": "in_flight", "filled_by": "filled_by", "stages": name, "intrinsic": "intrinsic"}
    return Rule.refusing("in_flight", why_not, "no stage is filled while products still read from it", names=names)


def _ping_pong_rule(choices: Choices, device: Device) -> Rule:
    def why_not(ping_pong: int, filled_by: str, workers: int, scratch: int) -> str | None:
        if not ping_pong:
            return None
        if filled_by != WARP:
            return f"alternating warpgroups need a producer warp that fills released stages, not {filled_by}"
        if workers != WARPGROUPS * WARPS * LANES:
            return f"{workers} threads cannot alternate: exactly {WARPGROUPS} warpgroups are needed"
        if scratch:
            return "the loop exchanges values through shared memory, which needs barriers of both warpgroups"
        return None

    suffix = next(
        suffix for suffix, loop in exchange_loops(choices.first).items() if loop == alternating(choices.first)
    )
    names = {"workers": workers(choices, device), "scratch": scratch_name(suffix)}
    return Rule.refusing(
        PING_PONG,
        why_not,
        "all warpgroups reach the same barriers",
        names={**names, "ping_pong": PING_PONG, "filled_by": "filled_by"},
    )


def _ahead_rule(choices: Choices) -> Rule:
    untaken = next((s.name for s in boxed_operands(choices) if s.loop is not None and not can_use_tma(s)), None)

    def why_not(products_ahead: int, filled_by: str, stages: int, ping_pong: int, scratch: int) -> str | None:
        if not products_ahead:
            return None
        if filled_by == BY_THREADS or untaken is not None:
            return "a product that is computed ahead needs TMA for the tiles of all operands"
        if stages < 2:
            return "a product that is computed ahead needs a second stage, to which tiles are copied at the same time"
        if ping_pong:
            return "ping_pong already overlaps products with other operations"
        if scratch:
            return "the barriers for exchanges through shared memory in the loop would wait for all products"
        return None

    loop = alternating(choices.first)
    suffix = next(suffix for suffix, number in exchange_loops(choices.first).items() if number == loop)
    (stages,) = stage_names(choices.first).values()
    return Rule.refusing(
        PRODUCTS_AHEAD,
        why_not,
        "a product can be computed one iteration ahead",
        names={
            "products_ahead": PRODUCTS_AHEAD,
            "filled_by": "filled_by",
            "stages": stages,
            "ping_pong": PING_PONG,
            "scratch": scratch_name(suffix),
        },
    )
