"""Rules for operands that are copied to shared memory, and for loops that are split among blocks."""

from __future__ import annotations

from math import gcd

from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.costs.transactions import WIDEST_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.requirements import Refusal
from search_spaces.layouts.shared_layout import Axis, parse_layout
from search_spaces.programs.inference.inference import Staged
from search_spaces.programs.planning.block_order import may_share_long_tiles
from search_spaces.programs.planning.choices import Choices
from search_spaces.programs.planning.instructions import fragments
from search_spaces.programs.planning.memory import stage_names
from search_spaces.programs.planning.splits import ALL, LAUNCHES, PARTS, TILES, combining_loop, shared_loop
from search_spaces.programs.planning.unrolling import unrollable
from search_spaces.programs.schedules.decisions import COPY_COLUMNS, operand_names
from search_spaces.programs.schedules.streams import is_splittable
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule
from search_spaces.templates.common.line_access import sectors_rule
from search_spaces.templates.common.operand_rules import operand_rules

FULL_WAVES = 2  # with this number of blocks per SM or more, splitting k adds no parallelism
# the corresponding limit for p.split, which is higher, because splitting also balances blocks of different lengths
EVEN_WAVES = 4


def staged_rules(staged: Staged, threads: str) -> tuple[Rule, ...]:
    """Return the validity rules of an operand's tile in shared memory."""
    axis: Axis = "cols" if staged.row_major else "rows"
    element_bytes, names = staged.load.window.array.dtype.bytes, operand_names(staged, threads)
    side = None if staged.converted else staged.side
    return operand_rules(side, staged.name, names, axis, staged.alignment, element_bytes)


def operand_pruning(staged: Staged, threads: str, device: Device) -> tuple[Rule, ...]:
    """Return pruning rules for fast copies and reads.

    The rules require cp.async if available and aligned, few sectors per access, and ldmatrix without bank conflicts.
    """
    element_bytes, extent = staged.load.window.array.dtype.bytes, staged.alignment
    widest = gcd(extent, WIDEST_BYTES // element_bytes)
    names = operand_names(staged, threads)
    # 8-bit fragments must be contiguous along k. Operands that are contiguous along m or n in memory must therefore be
    # transposed, which cp.async cannot do.
    iterations = element_bytes == 1 and not staged.converted and staged.row_major != (staged.side == "a")

    def fits(major: int, minor: int, threads: int, vector: int) -> bool:
        return any(
            major % (threads // columns) == 0 and minor % (columns * vector) == 0
            for columns in COPY_COLUMNS
            if columns <= threads
        )

    def as_wide(vector: int, major: int, minor: int, threads: int, copy: str) -> bool:
        if copy != "cp.async" and not iterations and vector * element_bytes >= 4 and device.has("cp_async"):
            return False
        return vector == widest or not fits(major, minor, threads, 2 * vector)

    def conflict_free(layout: str, rows: int, cols: int, intrinsic: str) -> bool:
        row, parsed = fragments(intrinsic), parse_layout(layout, rows, cols)
        if isinstance(parsed, str) or isinstance(row.requirement(staged.side, parsed, element_bytes), Refusal):
            return True  # a validity rule already excludes this case
        read = fragment_traffic(row, staged.side, parsed, element_bytes)
        return read.wavefronts <= read.ideal

    copying = (
        Rule(
            f"copy_whole_{staged.name}",
            each(as_wide),
            f"{{copy}} of {{vector}} elements: cp.async can copy more elements of {staged.name} at a time",
            names={name: names[name] for name in ("vector", "major", "minor", "copy", "threads")},
        ),
        sectors_rule(
            f"copy_sectors_{staged.name}", names["minor"], names["vector"], names["columns"], extent, element_bytes
        ),
    )
    if staged.converted:
        return copying
    return (
        *copying,
        Rule(
            f"read_conflicts_{staged.name}",
            each(conflict_free),
            "layout {layout} causes bank conflicts of ldmatrix: padded or swizzled layouts avoid them",
            names={name: names[name] for name in ("layout", "rows", "cols")},
        ),
    )


def split_rules(choices: Choices) -> tuple[Rule, ...]:
    """Return the validity rules of split loops."""
    if shared_loop(choices.first) is not None:
        rules = [
            Rule(
                "split_launches",
                lambda launches, parts: (launches == 1) | (parts > 1),
                "one block executes all iterations of the loop, so a second launch has nothing to combine",
                names={"launches": LAUNCHES, "parts": PARTS},
            )
        ]
        if any(may_share_long_tiles(i) for i in choices.inferences.values()):
            rules.append(
                Rule(
                    TILES,
                    each(lambda tiles, launches, parts: tiles == ALL or (launches == 1 and parts > 1)),
                    'split_tiles "long" needs several blocks that share the loop, and one launch',
                    names={"tiles": TILES, "launches": LAUNCHES, "parts": PARTS},
                )
            )
        return tuple(rules)
    if not is_splittable(choices):
        return ()
    return (
        Rule(
            "split_k",
            lambda split_k, iterations: (split_k - 1) * ceil_div(iterations, split_k) < iterations,
            "with split_k {split_k}, some block has none of the {iterations} iterations",
            names={"iterations": "turns"},
        ),
    )


def split_pruning(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return pruning rules that drop splits without benefit."""
    if shared_loop(choices.first) is not None:
        return _sharing_pruning(choices, device)
    if not is_splittable(choices):
        return ()
    enough = FULL_WAVES * device.sm_count
    return (
        Rule(
            "split_k_waves",
            lambda split_k, blocks: (split_k == 1) | (blocks < enough),
            f"split_k {{split_k}} is not useful: {{blocks}} tiles already give each of the {device.sm_count} SMs of "
            f"{device.name} at least {FULL_WAVES} blocks",
        ),
        Rule(
            "split_k_stages",
            lambda split_k, stages, iterations: (split_k == 1) | (stages <= ceil_div(iterations, split_k)),
            "{stages} stages are more than a block's iterations: {iterations} are split among {split_k} blocks",
            names={"iterations": "turns"},
        ),
    )


def _sharing_pruning(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return pruning rules that limit the number of blocks of a split loop to useful numbers."""
    shared = shared_loop(choices.first)
    assert shared is not None
    loop, _ = shared
    enough = EVEN_WAVES * device.sm_count
    rules = [
        Rule(
            "parts_waves",
            lambda parts, blocks: (parts == 1) | (blocks < enough),
            f"{{parts}} blocks per tile are not useful: {{blocks}} tiles already give each of the {device.sm_count} "
            f"SMs of {device.name} at least {EVEN_WAVES} blocks",
            names={"parts": PARTS, "blocks": "blocks"},
        )
    ]
    stages = stage_names(choices.first).get(loop.number)
    if stages is not None:
        iterations = stages.replace("stages", "turns")
        rules.append(
            Rule(
                "parts_iterations",
                lambda parts, stages, iterations: (parts == 1) | (stages <= ceil_div(iterations, parts)),
                "{stages} stages are more than a block's iterations: {iterations} are split among {parts} blocks",
                names={"parts": PARTS, "stages": stages, "iterations": iterations},
            )
        )
    unroll = unrollable(choices.first).get(combining_loop(choices.first) or 0)
    if unroll is not None:
        rules.append(
            Rule(
                f"{unroll}_parts",
                lambda unroll, parts: (unroll == 1) | (unroll < 2 * (parts - 1)),
                "half of the unroll factor {unroll} already unrolls the loop over {parts} partial results completely",
                names={"unroll": unroll, "parts": PARTS},
            )
        )
    return tuple(rules)
