"""Exact counting of legal configurations by variable elimination, without enumerating all configurations.

The method is bucket elimination (Dechter, "Bucket elimination: a unifying framework for reasoning", 1999) on columnar
tables. Attributes and rules with few combinations of inputs become relations over their inputs. Other rules are
evaluated on the rows of a table as soon as the table contains their inputs. Eliminating a variable joins the relations
that contain the variable, and groups the result by the columns that other relations still need. The sizes of groups are
exact counts. Unrelated variables never share a table: their counts are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.spaces.columns import Columns, Values
from search_spaces.spaces.counting.constraints import Constraints
from search_spaces.spaces.counting.count_tree import CountTree, Step
from search_spaces.spaces.counting.limits import RowsLeft, TooTightlyTied
from search_spaces.spaces.counting.planning import Action, Elimination, EliminationPlan, Evaluated, RelationSize, bits
from search_spaces.spaces.counting.tables import (
    NONE,
    UNIT,
    Codes,
    Join,
    Relation,
    code_type,
    concatenate,
    group_starts,
    keys,
    sorted_order,
)
from search_spaces.spaces.rules import Attribute, Rule

CHUNK_ROWS = 1 << 17  # number of rows that a join produces at a time, small enough for the CPU cache
TABLE_ROWS = 1 << 24  # maximum number of rows of a table


def eliminate(
    constraints: Constraints, rules: Sequence[Rule], held: Sequence[str] = (), rows: RowsLeft | None = None
) -> CountTree:
    """Count the configurations that satisfy every rule.

    Args:
        constraints: Parameters and attributes.
        rules: Rules that configurations must satisfy.
        held: Parameters to eliminate last, so that each combination of their values has a contiguous range of ranks
            (``CountTree.ranges``).
        rows: Maximum number of rows that all joins together produce; None for the default.

    Raises:
        TooTightlyTied: A table would have more than TABLE_ROWS rows, or joins would produce more than ``rows`` rows.
    """
    return _Tables(constraints, rules, held, rows or RowsLeft()).run()


class _Tables:
    """State of an elimination: the remaining relations and evaluations, and the completed steps."""

    def __init__(self, constraints: Constraints, rules: Sequence[Rule], held: Sequence[str], rows: RowsLeft) -> None:
        self._rows = rows
        self._fixed = constraints.constants
        relations: list[Relation] = []
        evaluations: list[tuple[Attribute | Rule, str | None, float]] = []
        needs: set[str] = set()
        for rule in rules:
            holds = constraints.holds(rule)
            if holds is not None:
                relations += [] if holds else [NONE]
                continue
            relation = constraints.relation(rule)
            if relation is UNIT:
                continue
            needs.update(rule.needs)
            if relation is None:
                evaluations.append((rule, None, constraints.share(rule)))
            else:
                relations.append(self._open(relation))
        self._parameters = {p.name: p.values for p in constraints.parameters}
        self._domains: dict[str, Values] = {**self._parameters, **self._fixed}
        attributes = [name for name in constraints.needed(needs) if name not in self._fixed]
        for name in attributes:
            definition, domain = constraints.definition(name), constraints.domain(name)
            if definition is None or domain is None:
                evaluations.append((constraints.attributes[name], name, 1.0))
            else:
                relations.append(self._open(definition))
                self._domains[name] = domain
        self._names = list(constraints.index)
        self._relations = dict(enumerate(relations))
        self._evaluations = {i: (item, output) for i, (item, output, _) in enumerate(evaluations)}
        self._code_of_value: dict[str, dict[int, int]] = {}
        self._steps: list[Step] = []
        mask = constraints.mask
        self._plan = EliminationPlan(
            relations={i: RelationSize(mask(r.columns), float(r.length)) for i, r in self._relations.items()},
            evaluations={
                i: Evaluated(mask(self._open_names(item.needs)), 0 if output is None else mask([output]), share)
                for i, (item, output, share) in enumerate(evaluations)
            },
            waiting=mask((*self._parameters, *attributes)),
            undefined=mask(name for name in attributes if name not in self._domains),
            combinations=constraints.combinations,
            held=mask(held),
        )

    def _open_names(self, names: Iterable[str]) -> list[str]:
        """Return the names that are not constants, because a constant would connect unrelated relations."""
        return [name for name in names if name not in self._fixed]

    def _open(self, relation: Relation) -> Relation:
        return relation.select(self._open_names(relation.columns)) if self._fixed else relation

    def run(self) -> CountTree:
        if any(relation.length == 0 for relation in self._relations.values()):
            return CountTree((), self._parameters)
        while self._plan.waiting:
            step = self._plan.next()
            # columns to keep; attributes that later steps do not need are dropped
            needed = {
                *self._parameters,
                *(self._names[i] for i in bits(step.keeps)),
            }
            pieces: list[Relation] = []
            rows = 0
            for piece in self._pieces(UNIT, step.actions):
                pieces.append(piece.select(needed))
                rows += piece.length
                if rows > TABLE_ROWS:
                    raise TooTightlyTied(
                        f"the rules connect {', '.join(piece.columns)} so closely that counting needs a table of more "
                        f"than {TABLE_ROWS} rows: split the rules into rules with fewer inputs, or formulate them "
                        "with attributes that have fewer distinct values"
                    )
            if not pieces:
                return CountTree((), self._parameters)
            self._finish(step, pieces)
        return CountTree(tuple(self._steps), self._parameters)

    def _pieces(self, table: Relation, actions: Sequence[Action]) -> Iterator[Relation]:
        """Apply joins and evaluations to a table. Yield several pieces if a join would exceed CHUNK_ROWS rows."""
        for i, (kind, index) in enumerate(actions):
            if not table.length:
                return
            if kind == "evaluate":
                table = self._evaluate(table, *self._evaluations[index])
                continue
            right = self._relations[index] if kind == "join" else self._domain(self._names[index])
            join = Join(table, right, {name: len(self._domains[name]) for name in table.columns})
            total = int(join.counts.sum())
            self._rows.take(total, dict.fromkeys((*table.columns, *right.columns)))
            if total <= CHUNK_ROWS:
                table = join.rows(0, table.length)
                continue
            cuts = np.searchsorted(np.cumsum(join.counts), np.arange(CHUNK_ROWS, total, CHUNK_ROWS)).tolist()
            edges = sorted({0, *cuts, table.length})
            for start, stop in pairwise(edges):
                yield from self._pieces(join.rows(start, stop), actions[i + 1 :])
            return
        if table.length:
            yield table

    def _domain(self, name: str) -> Relation:
        size = len(self._domains[name])
        return Relation({name: np.arange(size, dtype=code_type(size))}, size)

    def _evaluate(self, table: Relation, item: Attribute | Rule, output: str | None) -> Relation:
        domains = {name: self._domains[name] for name in item.needs}
        fixed = np.zeros(table.length, dtype=np.int64)
        codes = {name: fixed if name in self._fixed else table.columns[name] for name in item.needs}
        columns = Columns.coded(codes, domains, table.length)
        result: npt.NDArray[Any] = item.evaluate(columns)
        if output is None:
            return table if bool(result.all()) else table.take(np.flatnonzero(result))
        return Relation({**table.columns, output: self._codes(output, result)}, table.length, table.steps)

    def _codes(self, attribute: str, values: IntArray) -> Codes:
        """Compute the codes of an attribute that has no relation, one for each row of a table.

        The domain of the attribute grows with every piece of the table.
        """
        code = self._code_of_value.setdefault(attribute, {})
        distinct, inverse = np.unique(values, return_inverse=True)
        codes = np.array([code.setdefault(value, len(code)) for value in distinct.tolist()], dtype=np.uint32)
        if len(code) > len(self._domains.get(attribute, ())):
            self._domains[attribute] = np.array(list(code), dtype=np.int64)
        return codes[inverse]

    def _finish(self, step: Elimination, pieces: list[Relation]) -> None:
        """Group a table by the columns that later steps need. Groups become a relation, and the grouped rows a Step."""
        table = concatenate(pieces)
        keeps = [self._names[i] for i in bits(step.keeps)]
        (key,), bound = keys((table,), {name: len(self._domains[name]) for name in keeps})
        order = sorted_order(key, bound)
        if order is not None:
            table, key = table.take(order), key[order]
        starts = group_starts(key)
        index = len(self._steps)
        self._steps.append(
            Step.make(
                {name: codes for name, codes in table.columns.items() if name not in keeps},
                starts,
                table.length,
                tuple((self._steps[s], s, groups) for s, groups in table.steps.items()),
                is_root=not keeps,
            )
        )
        for kind, used in step.actions:
            if kind == "join":
                del self._relations[used]
        result = max(self._relations, default=-1) + 1
        if keeps:
            groups = np.arange(len(starts), dtype=code_type(len(starts)))
            columns = {name: table.columns[name][starts] for name in keeps}
            self._relations[result] = Relation(columns, len(starts), {index: groups})
        self._plan.take(step, result, float(len(starts)))
