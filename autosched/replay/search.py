"""Run samplers on a table of recorded measurements, and count how many evaluations each needs.

An evaluation is the first visit of a recorded configuration, whether or not the configuration ran. The quality of a
search after n evaluations is the best time in the table, divided by the best time found so far. It is 0 until a
configuration has run, and 1 at the optimum.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.samplers.base import Sampler
from autosched.user_kernels.arithmetic import Type
from autosched.user_kernels.expressions import ExpressionError, parse
from measurements.tables.table import Table, TableError, is_float
from search_spaces.arrays import FloatArray
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.search_space import SearchSpace

NEAR = 0.95  # minimum quality of a search that has reached the optimum


@dataclass(frozen=True)
class Search:
    """One search: ``quality`` after each evaluation, and the mean seconds per proposal."""

    seed: int
    quality: tuple[float, ...]
    seconds_per_proposal: float

    def evaluations_to(self, quality: float) -> int | None:
        """Return the number of evaluations to reach ``quality``; None if the search never reached it."""
        return next((n for n, reached in enumerate(self.quality, 1) if reached >= quality), None)

    def after(self, evaluations: int) -> float:
        """Return the quality after ``evaluations`` evaluations, or the final quality of a shorter search."""
        return self.quality[: max(evaluations, 1)][-1] if self.quality else 0.0


@dataclass(frozen=True)
class Searches:
    """Repeated searches of one table by one sampler, with different seeds."""

    sampler: str
    budget: int
    searches: tuple[Search, ...]

    def median_evaluations_to(self, quality: float) -> float | None:
        """Return the median number of evaluations to reach ``quality``; None if half the searches never did."""
        reached = [s.evaluations_to(quality) for s in self.searches]
        median = statistics.median_high([self.budget + 1 if n is None else n for n in reached])
        exact = statistics.median([self.budget + 1 if n is None else n for n in reached])
        return None if median > self.budget else float(exact)

    def quartiles(self, evaluations: int) -> tuple[float, float, float]:
        """Return the lower quartile, median and upper quartile of the quality after this number of evaluations."""
        low, middle, high = np.quantile([s.after(evaluations) for s in self.searches], (0.25, 0.5, 0.75))
        return float(low), float(middle), float(high)

    def curves(self) -> FloatArray:
        """Return the quartiles of the quality after each number of evaluations, as an array [3, budget]."""
        return np.array([self.quartiles(n) for n in range(1, self.budget + 1)]).T


Make = Callable[[SearchSpace, int], Sampler]


def search(table: Table, space: SearchSpace, sampler: Sampler, budget: int, seed: int, batch: int = 1) -> Search:
    """Search ``table`` with ``sampler``, for at most ``budget`` evaluations.

    Args:
        table: Recorded times, which must include every proposed schedule.
        space: Space of the sampler.
        sampler: A new sampler, to which no result was reported yet.
        budget: Number of evaluations, including repeated ones. The search ends earlier if the sampler has no further
            proposal.
        seed: Seed of the sampler, which is only stored in the result.
        batch: Number of schedules in flight, which are proposed before the first result is reported.

    Returns:
        The quality after each evaluation, and the seconds that the sampler took per proposal.

    Raises:
        KeyError: The sampler proposed a schedule that is not in the table.
    """
    best = 0.0
    quality: list[float] = []
    spent = 0.0
    while len(quality) < budget:
        began = time.perf_counter()
        proposed = sampler.ask(min(batch, budget - len(quality)))
        spent += time.perf_counter() - began
        if not proposed:
            break
        for schedule in proposed:
            measurement = table.measurements[schedule]
            if measurement.timing is not None:
                best = max(best, table.best_seconds / measurement.timing.median)
            quality.append(best)
        began = time.perf_counter()
        for schedule in proposed:
            sampler.tell(schedule, table.measurements[schedule])
        spent += time.perf_counter() - began
    return Search(seed, tuple(quality), spent / max(len(quality), 1))


def searches(
    table: Table, name: str, make_sampler: Make, *, budget: int, repeats: int, first_seed: int = 0, batch: int = 1
) -> Searches:
    """Search ``table`` ``repeats`` times, with the seeds from ``first_seed`` on.

    Args:
        table: The recorded times.
        name: Name of the sampler in the result.
        make_sampler: Function that returns a new sampler for a space and a seed.
        budget: Evaluations of each search.
        repeats: Number of searches.
        first_seed: Seed of the first search. Each further search has the next seed.
        batch: Number of schedules in flight.

    Returns:
        The searches, in the order of their seeds.
    """
    space = table.space()
    results = [
        search(table, space, make_sampler(space, seed), budget, seed, batch)
        for seed in range(first_seed, first_seed + repeats)
    ]
    return Searches(name, budget, tuple(results))


def restricted(table: Table, restrictions: Sequence[str]) -> Table:
    """Return the configurations of ``table`` for which every expression holds.

    Expressions such as ``"block_size_x * tile_x <= 1024"`` are in the language of kernel files. Raises TableError for
    an invalid expression or an unknown name, and if no configuration remains.
    """
    schedules = list(table.measurements)
    for text in restrictions:
        for name, parameters in table.parameters.items():
            rule = _rule(text, parameters)
            own = [s for s in schedules if s.template == name]
            if own:
                space = table.space().members[name]
                allowed = rule.evaluate(space.columns(own).select(rule.needs))
                refused = {s for s, good in zip(own, allowed.tolist(), strict=True) if not good}
                schedules = [s for s in schedules if s not in refused]
    if not schedules:
        raise TableError(f"no recorded configuration satisfies {' and '.join(restrictions)}: remove a restriction")
    return table.only(
        schedules, f"{len(schedules)} of {len(table.measurements)} configurations satisfy the restrictions"
    )


def _type(parameter: Parameter) -> Type:
    if not parameter.is_text:
        return "int"
    return "float" if is_float(parameter) else "text"


def _rule(text: str, parameters: Sequence[Parameter]) -> Rule:
    types = {p.name: _type(p) for p in parameters}
    try:
        expression = parse(text, types)
    except ExpressionError as error:
        raise TableError(f"the restriction {text!r} cannot be used: {error}") from None
    if not expression.names:
        raise TableError(f"the restriction {text!r} uses no parameter: use {', '.join(types)}")
    columns = {name: name for name in expression.names}
    return Rule(text, lambda **c: expression.holds(c, {}), lambda **v: f"{text} does not hold", names=columns)
