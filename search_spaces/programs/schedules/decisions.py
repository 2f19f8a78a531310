"""The parameters (decisions) and attributes (derived values) of a program's search space."""

from __future__ import annotations

from functools import lru_cache

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.shared_layout import sampled_layouts
from search_spaces.programs.inference.inference import Staged
from search_spaces.programs.planning import estimates
from search_spaces.programs.planning.block_order import (
    BLOCK_ORDERS,
    FORWARD,
    PARAMETER,
    may_share_long_tiles,
    uneven,
)
from search_spaces.programs.planning.choices import Choices, choices_of, unique_operands
from search_spaces.programs.planning.instructions import SUBGROUPS, is_boxed
from search_spaces.programs.planning.memory import (
    EXCHANGES,
    SHARED_LAYOUTS,
    stage_counts,
    stage_names,
)
from search_spaces.programs.planning.products_ahead import PARAMETER as PRODUCTS_AHEAD
from search_spaces.programs.planning.splits import ALL, LAUNCHES, LONG, SPLITS, TILES, shared_loop
from search_spaces.programs.planning.staging import REGISTERS, SHARED
from search_spaces.programs.planning.tails import MASKED, PEELED, peelable, tail_names
from search_spaces.programs.planning.unrolling import UNROLLS, unrollable
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.boxes import filling, threads, workers
from search_spaces.programs.schedules.fragments import fragment_buffers
from search_spaces.programs.schedules.needs import each_needs
from search_spaces.programs.schedules.persistence import persistence, persistent_attributes
from search_spaces.programs.schedules.shared_memory import added, shared_memory
from search_spaces.programs.schedules.sizes import anchor_count, derived_sizes, is_transposable, lane_counts
from search_spaces.programs.schedules.streams import is_splittable, stream_attributes, stream_k
from search_spaces.spaces.columns import Column, ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, Value, categorical, ordinal
from search_spaces.spaces.rules import Attribute
from search_spaces.templates.common.raster import raster
from search_spaces.templates.common.shared_tiles import stage_bytes

COPY_COLUMNS = (1, 2, 4, 8, 16, 32, 64, 128)
WARPS = (1, 2, 4, 8, 16)
STEP_REGISTERS = "step_registers"


def staged_operands(problem: ProgramProblem) -> list[Staged]:
    """Return the operands that schedules may copy to shared memory."""
    return unique_operands(choices_of(problem).first)


def operand_names(staged: Staged, threads: str) -> dict[str, str]:
    """Return a map from the argument names in rules for operands to the names of one operand's columns."""
    name = staged.name
    rows, cols = f"rows_{name}", f"cols_{name}"
    major, minor = (rows, cols) if staged.row_major else (cols, rows)
    own = {key: f"{key}_{name}" for key in ("layout", "copy", "vector")}
    shape = {"rows": rows, "cols": cols, "major": major, "minor": minor}
    return {**own, "columns": f"copy_columns_{name}", "threads": threads, **shape}


@lru_cache(maxsize=64)
def parameters(problem: ProgramProblem, device: Device) -> tuple[Parameter, ...]:
    """Return all parameters of the program."""
    choices = choices_of(problem)
    first = choices.first
    listed: list[Parameter] = [
        ordinal(name, values, "a size from p.choose") for name, values in choices.domains.items()
    ]
    if choices.element is not None:
        listed.append(categorical("intrinsic", choices.instructions(device), "instruction that multiplies fragments"))
    for p in first.products:
        if p.user_map is None:
            listed += [
                ordinal(
                    f"subgroups_m{p.suffix}", SUBGROUPS, "number of subgroups along the rows of a product (wg_map)"
                ),
                ordinal(
                    f"subgroups_n{p.suffix}",
                    SUBGROUPS,
                    "number of subgroups along the columns of a product (wg_map)",
                ),
            ]
    if not first.products:
        listed.append(
            ordinal(
                "warps",
                user_map_warps(choices) or WARPS,
                "warps of a block",
                default=4 if not user_map_warps(choices) else None,
            )
        )
    for a in range(anchor_count(choices)):
        listed += [
            ordinal(f"width_{a + 1}", (1, 2, 4, 8), f"consecutive elements per lane, in tiles of kind {a + 1}"),
            ordinal(
                f"lanes_{a + 1}",
                lane_counts(choices, a),
                f"lanes that share a memory line, in tiles of kind {a + 1}",
            ),
        ]
    for s in unique_operands(first):
        listed += _of_operand(s)
    for array in first.trace.shared:
        listed.append(categorical(f"layout_{array.name}", SHARED_LAYOUTS, f"shared-memory layout of {array.name}"))
    for loop, name in stage_names(first).items():
        listed.append(
            ordinal(
                name,
                stage_counts(first, loop),
                "number of pipeline stages: how many iterations of the loop have tiles in shared memory at once",
            )
        )
    listed += fragment_buffers(choices)
    for name in tail_names(choices.inferences.values()).values():
        doc = "whether the last iteration of the loop is peeled, so that the other iterations need fewer masks"
        listed.append(categorical(name, (MASKED, PEELED), doc, before=MASKED))
    for name in unrollable(first).values():
        listed.append(ordinal(name, UNROLLS, "unroll factor of the loop", before=4))
    listed += filling(choices, device)
    if shared_loop(first) is not None:
        doc = "launches of the split loop: with 2, a second launch combines the partial results"
        listed.append(ordinal(LAUNCHES, (1, 2), doc, before=1))
    if any(may_share_long_tiles(i) for i in choices.inferences.values()):
        doc = "whether all tiles have the same number of blocks, or tiles with few iterations have fewer blocks"
        listed.append(categorical(TILES, (ALL, LONG), doc, before=ALL))
    if is_splittable(choices):
        listed.append(
            ordinal(
                "split_k", SPLITS, "blocks that share the iterations of the loop; the last block adds the partial sums"
            )
        )
        listed += stream_k(choices)
    listed += persistence(choices)
    for i in range(len(first.sums)):
        listed.append(
            categorical(
                estimates.sum_name(i),
                (estimates.INSIDE, estimates.AFTER),
                "when partial sums of threads are combined: in each iteration or after the loop",
            )
        )
    for position, store in enumerate(first.stores):
        if is_transposable(first, position):
            listed.append(
                categorical(
                    f"store_{position + 1}",
                    ("direct", "turned"),
                    f"how {store.window.array.name} is stored: directly, or transposed through shared memory",
                )
            )
    if estimates.may_exchange(choices.inferences.values()):
        listed.append(categorical("exchange", EXCHANGES, "layout of tiles that threads exchange through shared memory"))
    listed.append(ordinal("min_blocks", (1, 2, 3, 4), "blocks per SM for which the compiler limits registers"))
    if len(first.trace.blocks) > 1:
        listed.append(raster())
    if any(uneven(i) is not None for i in choices.inferences.values()):
        listed.append(
            categorical(PARAMETER, BLOCK_ORDERS, "order of blocks with different numbers of iterations", before=FORWARD)
        )
    return tuple(listed)


def user_map_warps(choices: Choices) -> tuple[int, ...]:
    """Return a tuple with the number of warps that the user's maps require; empty without maps."""
    counts = {estimates.map_warps(m) for m in choices.first.user_maps.values()}
    return (max(counts),) if counts else ()


def _of_operand(staged: Staged) -> list[Parameter]:
    name, element_bytes = staged.name, staged.load.window.array.dtype.bytes
    vectors = tuple(v for v in (1, 2, 4, 8, 16) if v * element_bytes <= 16)
    home = (
        []
        if staged.loop is not None
        else [categorical(f"home_{name}", (REGISTERS, SHARED), f"whether {name} is in registers or in shared memory")]
    )
    layouts = sampled_layouts(element_bytes)
    if staged.converted:  # cp.async and wide reads need layouts in which memory lines stay contiguous
        layouts = tuple(text for text in layouts if text.startswith("transpose") != staged.row_major)
    return [
        *home,
        categorical(f"layout_{name}", layouts, f"shared-memory layout of a tile of {name}"),
        categorical(f"copy_{name}", ("cp.async", "ld.global"), f"instruction that copies {name} to shared memory"),
        ordinal(f"vector_{name}", vectors, f"elements of {name} that a thread copies at a time"),
        ordinal(f"copy_columns_{name}", COPY_COLUMNS, f"threads along a contiguous memory line of {name}"),
    ]


def shaping_names(problem: ProgramProblem, device: Device) -> dict[str, str]:
    """Return the names of the parameters that distributions depend on, each mapped to itself."""
    choices = choices_of(problem)
    known = [p.name for p in parameters(problem, device)]
    prefixes = ("subgroups_m", "subgroups_n", "width_", "lanes_", "warps", "intrinsic")
    return {name: name for name in known if name in choices.shaping or name.startswith(prefixes)}


def constants(problem: ProgramProblem) -> dict[str, int]:
    """Return the derived sizes that are the same for all schedules, by name."""
    choices = choices_of(problem)
    return {name: size for sizes in derived_sizes(problem) for name, size in sizes.constant(choices).items()}


def attributes(problem: ProgramProblem, device: Device) -> tuple[Attribute, ...]:
    """Return the attributes of the space. Rules, lowering and counts use them."""
    choices = choices_of(problem)
    operands = unique_operands(choices.first)
    listed: list[Attribute] = []
    for sizes in derived_sizes(problem):
        listed += sizes.attribute(choices)
    computing = workers(choices, device)
    listed.append(_threads(choices, computing))
    listed += threads(choices, device)
    listed += stream_attributes(choices, device)
    listed += persistent_attributes(choices, device)
    for s in operands:
        listed += _operand_attributes(s, computing)
    for position, name in tail_names(choices.inferences.values()).items() if choices.shaping else ():
        listed.append(_peelable(choices, position, name))
    shaping = shaping_names(problem, device)

    registers = each_needs(choices, lambda _, needs: needs.registers)
    step_registers = each_needs(choices, lambda _, needs: needs.fragments)

    in_flight = each_needs(choices, lambda _, needs: needs.in_flight)
    known = [p.name for p in parameters(problem, device)]

    def live(fragment_buffers: IntArray | int = 1, products_ahead: IntArray | int = 0, **values: Column) -> IntArray:
        total: IntArray = registers(**values) + (fragment_buffers - 1) * step_registers(**values)
        return total if PRODUCTS_AHEAD not in known else total + products_ahead * in_flight(**values)

    buffers = {p.name: p.name for p in fragment_buffers(choices)}
    runs_ahead = {PRODUCTS_AHEAD: PRODUCTS_AHEAD} if PRODUCTS_AHEAD in known else {}
    doc = "registers of values (lower bound)"
    listed.append(Attribute("live_registers", live, doc, names={**shaping, **buffers, **runs_ahead}))
    if buffers:
        doc = "registers of the operand fragments of one step along k"
        listed.append(Attribute(STEP_REGISTERS, step_registers, doc, names=shaping))
    copying = {f"registers_{i}": f"staging_{s.name}" for i, s in enumerate(operands)}
    # omit these attributes if some tile can stay in shared memory, as they would then depend on ``home_NAME``
    if operands and all(s.loop is not None for s in operands):
        parts = added("copying", list(copying.values()), "registers for copies of tiles")
        listed += parts
        copying = {"copying": parts[-1].name}
    listed.append(
        Attribute(
            "registers",
            lambda live, **c: live + sum(c.values()),
            "registers per thread (lower bound)",
            names={"live": "live_registers", **copying},
        )
    )
    listed += shared_memory(problem, device, parameters(problem, device), shaping)
    return tuple(listed)


def _peelable(choices: Choices, position: int, name: str) -> Attribute:
    def can_be(**values: Value) -> int:
        inference = choices.inference(values)
        return int(list(inference.loops)[position] in peelable(inference))

    doc = "whether some masks are only needed in the last iteration"
    return Attribute(f"peelable_{name}", each(can_be), doc, names={n: n for n in choices.shaping})


def _threads(choices: Choices, name: str) -> Attribute:
    products = choices.first.products
    if not products:
        return Attribute("threads", lambda warps: warps * WARP, "threads of a block")
    user_map = next((p.user_map for p in products if p.user_map is not None), None)
    if user_map is not None:
        count = estimates.map_warps(user_map) * WARP
        return Attribute(name, lambda min_blocks: 0 * min_blocks + count, "threads of a block")
    suffix = products[0].suffix
    return Attribute(
        name,
        lambda rows, columns: rows * columns * WARP,
        "threads of a block",
        names={"rows": f"subgroups_m{suffix}", "columns": f"subgroups_n{suffix}"},
    )


def _operand_attributes(s: Staged, threads: str) -> list[Attribute]:
    element_bytes = s.load.window.array.dtype.bytes
    names = operand_names(s, threads)
    bytes_name = f"stage_bytes_{s.name}" if s.loop is not None else f"resident_bytes_{s.name}"

    def size(layout: str, rows: int, cols: int, home: str = SHARED) -> int:
        return stage_bytes(layout, rows, cols, element_bytes) if home == SHARED else 0

    def in_registers(layout: str, rows: int, cols: int, home: str) -> int:
        return size(layout, rows, cols, home)

    def unboxed(layout: str, rows: int, cols: int, intrinsic: str) -> int:
        return 0 if is_boxed(intrinsic) else size(layout, rows, cols)

    if s.loop is None:
        names = {**names, "home": f"home_{s.name}"}
    if s.converted:
        names = {**names, "intrinsic": "intrinsic"}
    return [
        Attribute(
            bytes_name,
            each(unboxed if s.converted else size) if s.loop is not None else each(in_registers),
            f"bytes of shared memory of one tile of {s.name}",
            names=names,
        ),
        Attribute(
            f"staging_{s.name}",
            (
                lambda rows, cols, threads, copy: (
                    (copy == "ld.global") * ceil_div(rows * cols * element_bytes, 4 * threads)
                )
            )
            if s.loop is not None
            else (
                lambda rows, cols, threads, home: (
                    (home == REGISTERS) * ceil_div(rows * cols * element_bytes, 4 * threads)
                )
            ),
            f"registers that hold {s.name}, or the elements of {s.name} on their way to shared memory",
            names=names,
        ),
    ]
