"""The decision on double-buffered fragments: fragments of the next step are read while the current step is multiplied.

With two buffers, tensor cores have work even directly after the barrier between two iterations
(``autosched/tile/ring.cuh``).
"""

from __future__ import annotations

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.devices import Device, register_limit
from search_spaces.programs.planning.choices import Choices, unique_operands
from search_spaces.programs.planning.instructions import fragments, is_boxed
from search_spaces.programs.planning.staging import bufferable
from search_spaces.spaces.columns import TextColumn
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.templates.matmul.pruning import BUFFER_REGISTERS, ROUNDING_REGISTERS


def is_bufferable(choices: Choices) -> bool:
    """Return True if the loop with a ring does nothing but accumulate products of fragments."""
    return all(bufferable(i) is not None for i in choices.inferences.values())


def copying_name(choices: Choices) -> str:
    """Return the name of the column with the number of registers for copies of operands.

    The number is 0 if all copies use cp.async.
    """
    return f"copying_staging_{unique_operands(choices.first)[-1].name}"


def fragment_buffers(choices: Choices) -> tuple[Parameter, ...]:
    """Return the decision between one and two buffers of fragments; no decision if fragments cannot be buffered."""
    if not is_bufferable(choices):
        return ()
    doc = "buffers of fragments: with 2, fragments of the next step are loaded during a multiplication"
    return (ordinal("fragment_buffers", (1, 2), doc, before=1),)


def fragment_rules(choices: Choices) -> tuple[Rule, ...]:
    """Return the validity rules of two buffers, such as at least two stages and an even number of steps."""
    if not is_bufferable(choices):
        return ()
    product = choices.first.products[0]

    def steps(fragment_buffers: int, intrinsic: str, tile_k: int) -> str | None:
        row = fragments(intrinsic)
        mma = row.unit == "mma" and not is_boxed(intrinsic)
        if fragment_buffers == 1 or (mma and tile_k // row.k % 2 == 0):
            return None
        return (
            f"two buffers need mma.sync and an even number of steps per iteration: {intrinsic} has "
            f"{tile_k // row.k} steps for a k of {tile_k}"
        )

    names = {"fragment_buffers": "fragment_buffers", "intrinsic": "intrinsic", "tile_k": f"tile_k{product.suffix}"}
    return (
        Rule(
            "fragment_copies",
            lambda fragment_buffers, copying: (fragment_buffers == 1) | (copying == 0),
            "two buffers of fragments need cp.async copies: copies through {copying} registers arrive too late",
            names={"fragment_buffers": "fragment_buffers", "copying": copying_name(choices)},
        ),
        Rule(
            "fragment_stages",
            lambda fragment_buffers, stages: (fragment_buffers == 1) | (stages >= 2),
            "two buffers of fragments need at least two stages, not {stages}",
        ),
        Rule.refusing("fragment_steps", steps, "steps can alternate between two buffers of fragments", names=names),
    )


def fragment_pruning(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return the pruning rule that two buffers of fragments must fit in registers, as in the hand-written matmul."""
    if not is_bufferable(choices):
        return ()
    rounds = each(lambda name: fragments(name).rounds)

    def fits(
        intrinsic: TextColumn,
        fragment_buffers: IntArray,
        step_registers: IntArray,
        registers: IntArray,
        threads: IntArray,
        min_blocks: IntArray,
    ) -> BoolArray:
        more = BUFFER_REGISTERS + ROUNDING_REGISTERS * step_registers * rounds(intrinsic)
        enough: BoolArray = (fragment_buffers == 1) | (registers + more <= register_limit(device, threads, min_blocks))
        return enough

    return (
        Rule(
            "fragment_registers",
            fits,
            "about {registers} registers per thread with {fragment_buffers} buffers of fragments: ptxas would spill "
            "with {threads} threads and {min_blocks} blocks per SM",
        ),
    )
