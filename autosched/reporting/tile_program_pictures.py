"""Pictures of a tile program's values under a schedule: the warp and the thread that hold each element."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from autosched.reporting.panels import Cell, Panel, cell_legend, cyclic_colour, cyclic_legend, render, subgroup_colour
from search_spaces.arrays import IntArray
from search_spaces.hardware.fragments import WARP
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.distributions import distributions_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.schedule import Schedule

SHOWN = (16, 32)  # maximum rows and columns of the panel that shows threads


def draw_program(problem: ProgramProblem, schedule: Schedule, folder: str | Path) -> list[Path]:
    """Write one .svg file for each different distribution of values over threads, in the order of the program.

    The left panel shows the warp of each element of the tile. The right panel shows the threads for the first rows and
    columns of the tile: ``t5 r2`` is register 2 of thread 5 of the block. If several threads hold copies of an element,
    the first thread is shown.

    Args:
        problem: Problem with the tile program.
        schedule: Schedule of the problem.
        folder: Folder to write to, created if missing.

    Returns:
        Paths of the files.

    Raises:
        OSError: The folder cannot be written.
        ImportError: matplotlib is not installed.
    """
    inference = choices_of(problem).inference(schedule.values)
    distributions = distributions_of(inference, schedule.values)
    target, drawn, paths = Path(folder), set[tuple[str, Distribution]](), []
    target.mkdir(parents=True, exist_ok=True)
    for operation in inference.definitions.values():
        name = ir.spelled(operation)
        for spread in inference.computed_in(operation.result):
            distribution, identifier = distributions.of(spread), f"line_{operation.source.line}_{name}"
            if (identifier, distribution) in drawn:
                continue
            drawn.add((identifier, distribution))
            path = target / f"{len(drawn):02}_{identifier}.svg"
            title = f"{operation.source}: {name}, {spread}"
            paths.append(render([panels(distribution, distributions.warps, title)], path))
    return paths


def panels(distribution: Distribution, warps: int, title: str) -> list[Panel]:
    """Return two panels that show the owners of the tile's elements.

    The first panel shows the warp of each element. The second shows the thread of each element in the first rows and
    columns.
    """
    rows, columns = distribution.shape
    elements = distribution.elements(warps)  # element in each register, of shape (threads, registers)
    first = np.full(rows * columns, -1, dtype=np.int64)
    register = np.zeros(rows * columns, dtype=np.int64)
    # assign in reverse order, so that the first owner of an element is stored last
    for thread in range(len(elements) - 1, -1, -1):
        first[elements[thread]] = thread
        register[elements[thread]] = np.arange(elements.shape[1])
    threads, registers = first.reshape(rows, columns), register.reshape(rows, columns)
    part = threads[: SHOWN[0], : SHOWN[1]]
    by_warp = [
        Cell(row, column, height, width, subgroup_colour(warp), f"warp {warp}")
        for row, column, height, width, warp in _blocks(threads // WARP)
    ]
    by_thread = [
        Cell(row, column, height, width, cyclic_colour(thread % WARP / WARP),
             f"t{thread}\nr{registers[row, column]}")
        for row, column, height, width, thread in _blocks(part)
    ]  # fmt: skip
    return [
        Panel(title, f"{rows} x {columns}, by warp ({warps} warps)", (rows, columns), by_warp,
              legend=cell_legend(by_warp)),
        Panel("by thread", f"the first {part.shape[0]} x {part.shape[1]}; r: register", (part.shape[0], part.shape[1]),
              by_thread, legend=cyclic_legend("lane", WARP)),
    ]  # fmt: skip


def _blocks(numbers: IntArray) -> list[tuple[int, int, int, int, int]]:
    """Divide the array into rectangles of equal size, so that all elements of a rectangle have the same number.

    Return (row, column, rows, columns, number) of each rectangle.
    """
    height, width = (_step(numbers, d) for d in (0, 1))
    return [
        (row, column, height, width, int(numbers[row, column]))
        for row in range(0, numbers.shape[0], height)
        for column in range(0, numbers.shape[1], width)
    ]


def _step(numbers: IntArray, dimension: int) -> int:
    """Return the largest block size along ``dimension`` at which no number changes within a block.

    The block size divides the extent of ``dimension``.
    """
    changes = np.flatnonzero((np.diff(numbers, axis=dimension) != 0).any(axis=1 - dimension)) + 1
    return math.gcd(numbers.shape[dimension], *changes.tolist())
