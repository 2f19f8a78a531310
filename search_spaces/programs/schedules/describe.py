"""Describe a schedule for users: the distributions of the program's values, and conversions between distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.language.moves import Renamed, Shuffled, move
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.distributions import Distributions, distributions_of
from search_spaces.programs.planning.instructions import is_wmma
from search_spaces.programs.planning.wmma import is_staged
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.parameters import Value


@dataclass(frozen=True)
class ValueRow:
    """A value in one distribution. ``spread`` is the symbolic distribution; ``registers`` are counted per thread."""

    location: str
    operation: str
    shape: str
    spread: str
    distribution: str
    registers: int


@dataclass(frozen=True)
class ConversionRow:
    """A conversion. ``cost`` is the number of warp instructions of a block: shuffles, or shared-memory accesses."""

    location: str
    shape: str
    source: str
    target: str
    route: str
    cost: int


def values(problem: ProgramProblem, schedule: Mapping[str, Value]) -> tuple[ValueRow, ...]:
    """Return every distribution in which a value is computed, in program order."""
    inference = choices_of(problem).inference(schedule)
    distributions = distributions_of(inference, schedule)
    wmma = bool(inference.products) and is_wmma(str(schedule["intrinsic"]))
    rows = []
    for operation in inference.definitions.values():
        result = operation.result
        for spread in inference.computed_in(result):
            if wmma and is_staged(inference, result, spread):
                continue  # omit this value: wmma reads it from shared memory, so it has no distribution over registers
            of = distributions.of(spread)
            shape = f"{result.shape[0]}x{result.shape[1]} {result.dtype.name}"
            rows.append(
                ValueRow(str(operation.source), ir.spelled(operation), shape, str(spread), str(of), of.registers)
            )
    return tuple(rows)


def conversions(problem: ProgramProblem, schedule: Mapping[str, Value]) -> tuple[ConversionRow, ...]:
    """Return all conversions of values to other distributions, and how elements move between threads."""
    inference = choices_of(problem).inference(schedule)
    distributions = distributions_of(inference, schedule)
    rows = [
        _row(distributions, inference.definitions[value.id].source, value, source, target, False)
        for value, source, target in inference.conversions
    ]
    for operation in inference.definitions.values():
        if isinstance(operation, ir.Convert) and inference.wanted.get(operation.result.id):
            target = inference.natural[operation.result.id]
            source = inference.natural.get(operation.value.id, target)
            rows.append(_row(distributions, operation.source, operation.result, source, target, operation.shared))
    return tuple(rows)


def _row(
    distributions: Distributions, location: ir.Source, value: ir.Value, source: Spread, target: Spread, shared: bool
) -> ConversionRow:
    route, cost = _route(distributions.of(source), distributions.of(target), distributions.warps, shared)
    shape = f"{value.shape[0]}x{value.shape[1]} {value.dtype.name}"
    return ConversionRow(str(location), shape, str(source), str(target), route, cost)


def _route(source: Distribution, target: Distribution, warps: int, shared: bool) -> tuple[str, int]:
    moved = None if shared else move(source, target, warps)
    if isinstance(moved, Renamed):
        return ("nothing" if moved.table == tuple(range(source.registers)) else "other registers"), 0
    if isinstance(moved, Shuffled):
        return f"shuffles within {WARP} lanes", len(moved.table) * warps
    return "shared memory", (source.registers + target.registers) * warps
