"""Loops in which only the last iteration needs certain masks. Peeling generates separate code for this iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning.uniform import always
from search_spaces.spaces.parameters import Value

MASKED, PEELED = "masked", "peeled"
IterationCounts = dict[int, int]


def without_last_iteration(iterations: IterationCounts, loop: int) -> IterationCounts:
    """Return a copy of ``iterations`` in which ``loop`` has one iteration less."""
    return {**iterations, loop: iterations[loop] - 1}


def reaches_beyond(window: ir.Window, dimension: int, inference: Inference, iterations: IterationCounts) -> bool:
    """Return True if a window reaches beyond the end of its array in some block and iteration.

    Args:
        window: A window on an array.
        dimension: 0 or 1.
        inference: Inference of the program.
        iterations: The largest number of iterations of each loop.
    """
    _, high = window.at[dimension].interval(inference.trace.most_blocks, iterations)
    return high + window.shape[dimension] > window.least[dimension]


@cache
def peelable(inference: Inference) -> frozenset[int]:
    """Return the innermost loops in which iterations before the last need fewer masks."""
    iterations = inference.trace.iterations()
    return frozenset(
        number
        for number, loop in inference.loops.items()
        if iterations[number] > 1
        and not any(isinstance(o, ir.Loop) for o in _inside(loop.body))
        and _masks(inference, loop, iterations) > _masks(inference, loop, without_last_iteration(iterations, number))
    )


def tail_names(inferences: Iterable[Inference]) -> dict[int, str]:
    """Return, by loop index, the name of the peeling parameter of each loop that can be peeled for some sizes."""
    positions = sorted({list(i.loops).index(number) for i in inferences for number in peelable(i)})
    return {index: "tail" if len(positions) == 1 else f"tail_{index + 1}" for index in positions}


def peeled(inference: Inference, values: Mapping[str, Value]) -> frozenset[int]:
    """Return the ids of the loops that a schedule peels."""
    loops = list(inference.loops)
    return frozenset(
        loop
        for index, loop in enumerate(loops)
        if loop in peelable(inference) and PEELED in (values.get("tail"), values.get(f"tail_{index + 1}"))
    )


def _masks(inference: Inference, loop: ir.Loop, iterations: IterationCounts) -> int:
    """Return the number of masks in a loop: window dimensions that need bounds checks, and conditions of ``where``."""
    count = 0
    for operation in _inside(loop.body):
        if isinstance(operation, ir.LoadTile | ir.StoreTile | ir.AtomicRmw) and operation.window.array.role != "shared":
            window = operation.window
            count += sum(reaches_beyond(window, d, inference, iterations) for d in (0, 1) if d not in window.indexed)
        elif isinstance(operation, ir.Map) and operation.function == "where":
            tests = always(operation, inference, iterations)
            count += 0 if tests is None or tests == "true" else 1 + tests.count("&&")
    return count


def _inside(body: tuple[ir.Operation, ...]) -> list[ir.Operation]:
    operations_inside: list[ir.Operation] = []
    for operation in body:
        operations_inside.append(operation)
        if isinstance(operation, ir.Region):
            operations_inside += _inside(operation.body)
    return operations_inside
