"""The space of matmul schedules: validity constraints and pruning rules.

The kernel is ``autosched/kernels/matmul.cuh``; its ``static_assert``s carry the names of the rules here.
"""

from __future__ import annotations

from functools import lru_cache

from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device
from search_spaces.hardware.requirements import OperandSide
from search_spaces.layouts.shared_layout import Axis
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.device_choices import offered
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.operand_rules import operand_rules
from search_spaces.templates.matmul.decisions import (
    attributes,
    axis_names,
    contiguous_extent,
    operand_names,
    parameters,
    row_major,
    tiling,
)
from search_spaces.templates.matmul.pruning import pruning_rules
from search_spaces.templates.matmul.stream_k import exchanged_rule, stream_k_rules


@lru_cache(maxsize=64)
def space(problem: Matmul, device: Device) -> Space:
    """Return all schedules of ``problem`` on ``device``."""
    return Space(
        "matmul",
        offered(parameters(problem, device), device),
        attributes(problem, device),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
        stratified_by="intrinsic",
        covering=("stream_k",),
    )


def validity_constraints(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute ``problem``."""
    return (
        *map_rules(),
        *intrinsic_rules(problem, device),
        _unroll_rule(),
        *_fragment_rules(),
        *scale_words_rule(problem),
        *_scale_unroll_rule(problem),
        *_operand_rules(problem, "a"),
        *_operand_rules(problem, "b"),
        tiling(problem).split_rule(),
        exchanged_rule(),
        *stream_k_rules(problem, device),
        *tiling(problem).grid_rules(parameters(problem, device)),
        *device_rules(device),
    )


@lru_cache(maxsize=2**12)
def _why_not_distributed(tile: int, subgroups: int, sg_data: int) -> str | None:
    """Return the reason why a dimension of a tile cannot be divided among subgroups, or None if it can."""
    wg_map = WgMap((subgroups, 1), (sg_data, 1))
    try:
        wg_map.verify((tile, 1))
    except ValueError:
        return "the sub-tiles do not divide the tile"
    return "several subgroups would compute the same part" if wg_map.wraps((tile, 1))[0] else None


def map_rules() -> tuple[Rule, ...]:
    """Return the rules that require the wg_map of out to assign each element of a tile to exactly one subgroup."""

    def map_rule(axis: str) -> Rule:
        def why_not(tile: int, subgroups: int, sg_data: int) -> str | None:
            reason = _why_not_distributed(tile, subgroups, sg_data)
            return reason and (
                f"the wg_map has {subgroups} subgroups with sub-tiles of {sg_data} elements along {axis}, and the tile "
                f"has {tile} elements: {reason}"
            )

        return Rule.refusing(f"wg_map_{axis}", why_not, names=axis_names(axis))

    return map_rule("m"), map_rule("n")


def intrinsic_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules of an intrinsic.

    Its fragments must divide a tile. Device, precision and epilogue must support it.
    """

    def fragment_rule(column: str, axis: str) -> Rule:
        return Rule(
            f"fragments_{axis}",
            each(lambda size, intrinsic: size % getattr(intrinsics.intrinsic(intrinsic), axis) == 0),
            f"{column} is {{size}}, which is not a multiple of the {axis} of {{intrinsic}}",
            names={"size": column},
        )

    def inexact(intrinsic: str) -> str | None:
        if not intrinsics.intrinsic(intrinsic).rounds or problem.precision == "tf32":
            return None
        return f"{intrinsic} rounds its operands to tf32, but the problem requires ieee precision"

    def no_route(intrinsic: str, epilogue: str) -> str | None:
        if epilogue == "shared":
            return None
        if problem.reduced_axis is not None:
            return (
                f"the {problem.reduction} reads the results from shared memory, so the epilogue must store them there"
            )
        if intrinsics.intrinsic(intrinsic).c.layout is None:
            return f"{intrinsic} has an unspecified layout of accumulators, so the epilogue must use shared memory"
        return None

    return (
        fragment_rule("sg_data_m", "m"),
        fragment_rule("sg_data_n", "n"),
        fragment_rule("tile_k", "k"),
        Rule.refusing(
            "intrinsic_sm",
            lambda intrinsic: intrinsics.intrinsic(intrinsic).why_not(device),
            "the device has the instruction",
        ),
        Rule.refusing("precision", inexact),
        Rule.refusing("epilogue", no_route),
    )


def _unroll_rule() -> Rule:
    def uneven(tile_k: int, intrinsic: str, unroll: int) -> str | None:
        steps = tile_k // intrinsics.intrinsic(intrinsic).k
        if steps % unroll == 0:
            return None
        return f"unroll is {unroll}, which does not divide the {steps} steps of {intrinsic} in tile_k = {tile_k}"

    return Rule.refusing("unroll", uneven)


def _operand_rules(problem: Matmul, operand: OperandSide) -> tuple[Rule, ...]:
    axis: Axis = "cols" if row_major(problem, operand) else "rows"
    extent, element_bytes = contiguous_extent(problem, operand), problem.input_dtype.bytes
    return operand_rules(operand, operand, operand_names(problem, operand), axis, extent, element_bytes)


def scale_words_rule(problem: Matmul) -> tuple[Rule, ...]:
    """Return the rule that the block scales of a k-tile fill whole words of four scales."""
    if not problem.blocks:
        return ()
    word = problem.blocks.word_elements

    def words(tile_k: int) -> str | None:
        if tile_k % word == 0:
            return None
        return f"tile_k is {tile_k}, but a word of scales covers {word} elements along k"

    return (Rule.refusing("scale_words", words),)


def _scale_unroll_rule(problem: Matmul) -> tuple[Rule, ...]:
    """Return the rule that all steps of a k-tile are unrolled if block scales are in registers."""
    if not problem.blocks:
        return ()

    def unrolled(tile_k: int, intrinsic: str, unroll: int) -> str | None:
        steps = tile_k // intrinsics.intrinsic(intrinsic).k
        if steps == unroll:
            return None
        return f"unroll is {unroll}, but scales in registers need all {steps} steps of tile_k = {tile_k} unrolled"

    return (Rule.refusing("scale_unroll", unrolled),)


def _fragment_rules() -> tuple[Rule, ...]:
    """Return the requirements of two buffers of fragments.

    The next k-tile must already be in shared memory, and the number of steps must be even, because steps alternate
    between the buffers.
    """

    def steps(fragment_buffers: int, intrinsic: str, tile_k: int, unroll: int) -> str | None:
        row = intrinsics.intrinsic(intrinsic)
        if fragment_buffers == 1 or (row.unit == "mma" and tile_k == unroll * row.k and unroll % 2 == 0):
            return None
        return (
            "two fragment buffers need mma.sync and an even number of steps per k-tile, all of them unrolled: "
            f"{intrinsic} needs {tile_k // row.k} steps for tile_k = {tile_k}, and unroll is {unroll}"
        )

    return (
        Rule(
            "fragment_copies",
            lambda fragment_buffers, copy_a, copy_b: (
                (fragment_buffers == 1) | ((copy_a == "cp.async") & (copy_b == "cp.async"))
            ),
            "two buffers of fragments need cp.async copies of a and b, but the copies are {copy_a} and {copy_b}: "
            "copies through registers reach shared memory too late",
        ),
        Rule(
            "fragment_stages",
            lambda fragment_buffers, stages: (fragment_buffers == 1) | (stages >= 2),
            "two buffers of fragments need a second stage, but stages is {stages}",
        ),
        Rule.refusing("fragment_steps", steps),
    )
