"""Pruning rules of matmuls: they exclude schedules for which a simpler or smaller schedule is at least as fast."""

from __future__ import annotations

from math import gcd

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware import intrinsics
from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.costs.data_movement import MOST_CONFLICTS, few_conflicts
from search_spaces.hardware.costs.transactions import WIDEST_BYTES
from search_spaces.hardware.devices import Device, register_limit
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import OperandSide, Refusal
from search_spaces.layouts.shared_layout import Axis, parse_layout
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import TextColumn, ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule
from search_spaces.templates.common.boxes import SIDES, aligned_bytes
from search_spaces.templates.common.line_access import sectors_rule, width_rule
from search_spaces.templates.common.raster import raster_rule
from search_spaces.templates.matmul.decisions import (
    COPY_COLUMNS,
    MIN_BLOCKS,
    contiguous_extent,
    operand_names,
    row_major,
    tiling,
)
from search_spaces.templates.matmul.stream_k import stream_k_pruning

# limit of arithmetic instructions in the unrolled loop body, so that the body fits in the instruction cache
BODY_LIMIT = 1024
NARROW = 16  # if out has fewer rows or columns, tensor-core fragments (at least 16 x 8) consist mostly of padding
FULL_WAVES = 2  # with this number of blocks, an SM has enough parallel work
WIDE_TILE = 64  # smallest extent of a tile for which loads take no longer than arithmetic
FEW_THREADS = 128  # number of threads of an SM if each of its schedulers has one warp
# Additional registers that ``rounding_rule`` assumes per fragment register of a step, if one buffer of f32 fragments is
# rounded to tf32 (cvt.rna) while the other is loaded. Of 37 sampled schedules near the limit, the rule excludes 25, and
# 20 of these 25 spill 8 to 296 bytes. Of the 12 schedules that satisfy the rule, 2 spill (NVRTC 13.5, sm_90a,
# 2026-11-22). f16 is not rounded, and does not spill near the limit.
ROUNDING_REGISTERS = 2
# Registers in addition to the lower bound: for copies through registers, for copies narrower than a register, and for
# two fragment buffers. Without these registers, first choices for sm_75, sm_100 and sm_120 spilled (NVRTC 13.5,
# 2026-11-24).
STAGED_REGISTERS, ELEMENT_REGISTERS, BUFFER_REGISTERS = 8, 16, 24
# Least number of results per thread: a warp then has 32 x 32 results, for which reading fragments takes no longer than
# mma.sync.
LEAST_RESULTS = 32


def pruning_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude a schedule if a simpler or smaller schedule is at least as fast."""
    return (
        *tile_size_rules(problem),
        _code_size_rule(),
        *_copy_pruning(problem, "a"),
        *_copy_pruning(problem, "b"),
        *_stage_rules(problem),
        raster_rule(("tile_m", "tile_n"), (problem.m, problem.n)),
        *tensor_core_rules(problem, device),
        *_cuda_core_rules(problem, device),
        *_mma_rules(problem, device),
        *_whole_copies(problem, device, "a"),
        *_whole_copies(problem, device, "b"),
        rounding_rule(device),
        _spill_rule(problem, device),
        tiling(problem).split_waves_rule(device, FULL_WAVES),
        *stream_k_pruning(problem, device, MIN_BLOCKS[-1]),
    )


def tile_size_rules(problem: Matmul) -> tuple[Rule, ...]:
    """Return the rules on the sizes of tiles."""
    of_k = problem.blocks.word_elements if problem.blocks else 32 // problem.input_dtype.bytes
    smallest = {"m": 16, "n": 16, "k": of_k}

    def size_rule(axis: str) -> Rule:
        extent, least = tiling(problem).extents["mnk".index(axis)], smallest[axis]
        return Rule(
            f"tile_size_{axis}",
            lambda tile: (tile < 2 * extent) | (tile == least),
            f"tile_{axis} is {{tile}}, but a tile of half this size already covers {axis} = {extent}",
            names={"tile": f"tile_{axis}"},
        )

    return size_rule("m"), size_rule("n"), size_rule("k")


def tensor_core_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return rules that prefer tensor cores to CUDA cores, and mma.sync to wmma.

    Tensor cores multiply at least 8 times as fast as CUDA cores, unless their fragments are mostly padding. mma.sync
    has a known register layout. So, unlike wmma, it needs no f32 tile in shared memory, no constant row stride, and
    only half of the shared-memory loads.
    """
    rows = [
        row
        for row in intrinsics.intrinsics_for(
            problem.a, tf32=problem.precision == "tf32", acc=problem.acc, device=device
        )
        if row.unit != "fma" and row.why_not(device) is None
    ]
    if not rows or min(problem.m, problem.n) < NARROW:
        return ()
    serving = [row for row in rows if row.unit == "mma" and _reads_both(problem)] or rows
    deepest = max(row.k for row in serving)  # excluded because an m16n8k8 does half the work of an m16n8k16
    names = [row.name for row in serving if row.k == deepest]
    return (
        Rule(
            "tensor_cores",
            each(lambda intrinsic: intrinsic in names),
            f"{{intrinsic}} is slower than {names[-1]}, which supports this problem: m and n are at least {NARROW}",
        ),
    )


def _cuda_core_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rule that each CUDA-core thread computes several results, if there are enough results for all threads.

    Threads with several results load fewer operands per product.
    """
    known = intrinsics.intrinsics_for(problem.a, tf32=False, acc=problem.acc, device=device)
    rows = [row for row in known if row.unit == "fma"]
    most = max((row.c.registers for row in rows), default=1)
    fit = [row for row in rows if row.c.registers == most and problem.m >= row.m and problem.n >= row.n]
    threads = FULL_WAVES * FEW_THREADS * device.sm_count
    if tensor_core_rules(problem, device) or not fit or problem.batch * problem.m * problem.n < most * threads:
        return ()

    def several(intrinsic: str) -> bool:
        row = intrinsics.intrinsic(intrinsic)
        return row.unit != "fma" or row.c.registers == most

    return (
        Rule(
            "results_of_thread",
            each(several),
            f"a thread of {{intrinsic}} loads two operands per product. A thread with {most} results (as with "
            f"{fit[0].name}) loads only {2 * int(most**0.5)} operands for {most} products. The problem is large enough "
            f"to keep {device.name} busy with such threads",
        ),
    )


def _reads_both(problem: Matmul) -> bool:
    """Return True if ldmatrix can read both operands in their storage orders (it only transposes 16-bit types)."""
    return problem.input_dtype.bytes == 2 or (problem.order_a == "row" and problem.order_b == "col")


def part_rules(problem: Matmul, device: Device, threads: str = "threads") -> tuple[Rule, ...]:
    """Return rules that exclude schedules in which a tile, or a subgroup's part of a tile, is too small for mma.sync.

    ``threads`` is the name of the column with the number of threads that multiply.
    """
    is_mma = each(lambda intrinsic: intrinsics.intrinsic(intrinsic).unit == "mma")
    enough = 2 * FULL_WAVES * device.sm_count

    def wave_rule(axis: str) -> Rule:
        extent = int(getattr(problem, axis))

        def few_blocks(tile_m: IntArray, tile_n: IntArray) -> BoolArray:
            side = tile_m if axis == "m" else tile_n
            blocks = problem.batch * ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n)
            few: BoolArray = (side >= min(WIDE_TILE, extent)) | (blocks < enough)
            return few

        return Rule(
            f"tile_waves_{axis}",
            few_blocks,
            f"a tile of {{tile_m}}x{{tile_n}} is narrow along {axis}: a tile of twice the width needs fewer loads, "
            f"and each of the {device.sm_count} SMs of {device.name} still gets {FULL_WAVES} blocks or more",
        )

    return (
        Rule(
            "warp_part",
            lambda threads, accumulators, intrinsic: (
                ~is_mma(intrinsic)
                | (threads <= FEW_THREADS)
                | (accumulators >= LEAST_RESULTS // problem.sums_of_register)
            ),
            "with {threads} threads and {accumulators} accumulators per thread, subgroups have less than 32 x 32 "
            "results, so reading shared memory takes longer than multiplying: use fewer subgroups",
            names={"threads": threads},
        ),
        Rule(
            "fragment_pairs",
            lambda sg_data_n, fragments_n, intrinsic: (
                ~is_mma(intrinsic) | (sg_data_n % 16 == 0) | (fragments_n % 2 == 1)
            ),
            "sg_data_n is {sg_data_n}, but one ldmatrix loads two adjacent fragments of b: use a multiple of 16",
        ),
        wave_rule("m"),
        wave_rule("n"),
    )


def _mma_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return rules that exclude slow schedules of mma.sync."""
    element_bytes = problem.input_dtype.bytes
    split = tiling(problem)
    is_mma = each(lambda intrinsic: intrinsics.intrinsic(intrinsic).unit == "mma")
    results = each(lambda name: intrinsics.intrinsic(name).results)
    depth = each(lambda name: intrinsics.intrinsic(name).k)

    def whole(tile_k: IntArray, intrinsic: TextColumn, unroll: IntArray, accumulators: IntArray) -> BoolArray:
        longer = accumulators * 2 * unroll > BODY_LIMIT * results(intrinsic)
        allowed: BoolArray = ~is_mma(intrinsic) | np.equal(tile_k, depth(intrinsic) * unroll) | longer
        return allowed

    def conflict_free(layout: str, rows: int, cols: int, intrinsic: str, operand: OperandSide) -> bool:
        row, parsed = intrinsics.intrinsic(intrinsic), parse_layout(layout, rows, cols)
        if row.unit != "mma" or isinstance(parsed, str):
            return True
        if isinstance(row.requirement(operand, parsed, element_bytes), Refusal):
            return True  # a validity constraint already rejects an illegal layout
        read = fragment_traffic(row, operand, parsed, element_bytes)
        return read.wavefronts <= read.ideal

    def reads(operand: OperandSide) -> Rule:
        names = operand_names(problem, operand)
        return Rule(
            f"read_conflicts_{operand}",
            each(lambda layout, rows, cols, intrinsic: conflict_free(layout, rows, cols, intrinsic, operand)),
            f"layout {{layout}} has bank conflicts of ldmatrix, unlike padded and swizzled tiles of {operand}",
            names={name: names[name] for name in ("layout", "rows", "cols")},
        )

    return (
        Rule(
            "unroll_whole",
            whole,
            "unroll is {unroll}, but all steps of tile_k = {tile_k} can be unrolled, so that their addresses are "
            "constants",
        ),
        *part_rules(problem, device),
        Rule(
            "stages_overlap",
            lambda stages, tile_k, split_k, copy_a, copy_b: (
                (stages >= 2)
                | (copy_a == "ld.global")
                | (copy_b == "ld.global")
                | (split.tiles_of_split(tile_k, split_k) < 2)
            ),
            "with one stage, cp.async does not overlap with arithmetic, so every k-tile takes the whole memory latency",
        ),
        reads("a"),
        reads("b"),
    )


def _whole_copies(problem: Matmul, device: Device, operand: OperandSide) -> tuple[Rule, ...]:
    """Return the rule that requires the widest possible copies for tensor cores, by cp.async if they are 16 bytes wide.

    A 16-byte cp.async needs no registers and bypasses L1.
    """
    element_bytes, extent = problem.input_dtype.bytes, contiguous_extent(problem, operand)
    widest = gcd(extent, WIDEST_BYTES // element_bytes)
    rows = intrinsics.intrinsics_for(problem.a, tf32=problem.precision == "tf32", acc=problem.acc, device=device)
    asynchronous = device.has("cp_async")
    serves = any(row.unit == "mma" and row.why_not(device) is None for row in rows) and _reads_both(problem)
    if not serves or min(problem.m, problem.n) < NARROW:
        return ()

    def fits(major: int, minor: int, threads: int, vector: int) -> bool:
        return any(
            major % (threads // columns) == 0 and minor % (columns * vector) == 0
            for columns in COPY_COLUMNS
            if columns <= threads
        )

    def as_wide(vector: int, major: int, minor: int, threads: int, copy: str) -> bool:
        if copy != "cp.async" and asynchronous and vector * element_bytes == WIDEST_BYTES:
            return False
        return vector == widest or not fits(major, minor, threads, 2 * vector)

    names = operand_names(problem, operand)
    return (
        Rule(
            f"copy_whole_{operand}",
            each(as_wide),
            f"{{copy}} copies {{vector}} elements at a time, but the alignment of {operand}'s lines allows "
            f"copies of {widest} elements{' by cp.async' if asynchronous else ''}",
            names={name: names[name] for name in ("vector", "major", "minor", "copy")},
        ),
    )


def rounding_rule(device: Device) -> Rule:
    """Return the rule that two buffers of rounded fragments are used only if ptxas does not spill registers."""
    rounds = each(lambda name: intrinsics.intrinsic(name).rounds)

    def fits(
        intrinsic: TextColumn, fragment_buffers: IntArray, fragment_registers_a: IntArray,
        fragment_registers_b: IntArray, registers: IntArray, threads: IntArray, min_blocks: IntArray,
    ) -> BoolArray:  # fmt: skip
        needed = registers + ROUNDING_REGISTERS * (fragment_registers_a + fragment_registers_b)
        one: BoolArray = np.equal(fragment_buffers, 1) | ~rounds(intrinsic)
        return one | (needed <= register_limit(device, threads, min_blocks))

    return Rule(
        "rounding_registers",
        fits,
        "a thread needs about {registers} registers, and two more for each fragment register of a step "
        "({fragment_registers_a} of a, {fragment_registers_b} of b), because one buffer is rounded to tf32 while the "
        "other is loaded: with {threads} threads and {min_blocks} blocks per SM, ptxas would spill",
    )


def _spill_rule(problem: Matmul, device: Device) -> Rule:
    """Return the rule that the counted registers, plus those that ptxas adds, fit in the registers of a thread."""
    aligned = min(aligned_bytes(problem, side) for side in SIDES)
    # If copies are narrower than a register, each copied part occupies a register until it is stored, and needs an
    # address.
    parts = max(4 // aligned, 1)
    staged = STAGED_REGISTERS if parts == 1 else ELEMENT_REGISTERS

    def fits(
        registers: IntArray, staging: IntArray, fragment_buffers: IntArray, threads: IntArray, min_blocks: IntArray
    ) -> BoolArray:
        more = np.maximum(
            np.where(staging > 0, staged + 2 * (parts - 1) * staging, 0),
            np.where(fragment_buffers > 1, BUFFER_REGISTERS, 0),
        )
        enough: BoolArray = np.equal(more, 0) | (registers + more <= register_limit(device, threads, min_blocks))
        return enough

    return Rule(
        "spilled_registers",
        fits,
        "about {registers} registers per thread, with {fragment_buffers} buffers of fragments and {staging} registers "
        "of copies, are too many for {threads} threads with {min_blocks} blocks per SM: ptxas would spill",
    )


def _code_size_rule() -> Rule:
    # number of accumulators that one instruction updates
    results = each(lambda name: intrinsics.intrinsic(name).results)
    return Rule(
        "code_size",
        lambda accumulators, intrinsic, unroll: accumulators * unroll <= BODY_LIMIT * results(intrinsic),
        "{accumulators} accumulators with k unrolled {unroll} times make a loop body of over "
        f"{BODY_LIMIT} arithmetic instructions",
    )


def _copy_pruning(problem: Matmul, operand: str) -> tuple[Rule, ...]:
    """Return rules that restrict a search to copies with wide vectors, few sectors and few bank conflicts."""
    element_bytes, extent = problem.input_dtype.bytes, contiguous_extent(problem, operand)
    names = operand_names(problem, operand)
    axis: Axis = "cols" if row_major(problem, operand) else "rows"

    # for each group of layouts with equal rules, the allowed pairs (vector, columns); None if all pairs are allowed
    good: list[frozenset[tuple[int, int]] | None] = []

    def which(layout: str, rows: int, cols: int) -> int:
        """Return the index of a layout's entry in ``good``. Hundreds of layouts share a few dozen entries."""
        parsed = parse_layout(layout, rows, cols)
        good_copies = None if isinstance(parsed, str) else few_conflicts(parsed, element_bytes, axis)
        if good_copies not in good:
            good.append(good_copies)
        return good.index(good_copies)

    def few(allowed: int, vector: int, columns: int) -> bool:
        pairs = good[allowed]
        return pairs is None or (vector, min(columns, WARP)) in pairs

    def conflicts(layout: TextColumn, rows: IntArray, cols: IntArray, vector: IntArray, columns: IntArray) -> BoolArray:
        """Return a mask of copies with few conflicts. Validity constraints reject illegal layouts and copies."""
        torn: BoolArray = np.not_equal((cols if axis == "cols" else rows) % (vector * columns), 0)
        free: BoolArray = each(few)(each(which)(layout, rows, cols), vector, columns)
        return torn | free

    return (
        width_rule(f"copy_width_{operand}", names["vector"], extent, element_bytes),
        sectors_rule(
            f"copy_sectors_{operand}", names["minor"], names["vector"], names["columns"], extent, element_bytes
        ),
        Rule(
            f"copy_conflicts_{operand}",
            conflicts,
            f"with layout {{layout}}, copying {operand} takes too long if {{columns}} columns of threads copy "
            f"{{vector}} elements each: more than {MOST_CONFLICTS:g} times as long as without bank conflicts, and "
            "longer than with another number of columns",
            names=names,
        ),
    )


def _stage_rules(problem: Matmul) -> tuple[Rule, ...]:
    split = tiling(problem)
    return (
        Rule(
            "stages",
            lambda stages, tile_k, split_k: stages <= split.tiles_of_split(tile_k, split_k),
            f"{{stages}} stages are more than the k-tiles of a split (k = {problem.depth}, tile_k = {{tile_k}}, "
            "split_k = {split_k})",
        ),
        Rule(
            "stages_async",
            lambda stages, copy_a, copy_b: (stages <= 2) | (copy_a == "cp.async") | (copy_b == "cp.async"),
            "{stages} stages need cp.async copies: loads through registers run only one k-tile ahead of the "
            "multiplications",
        ),
    )
