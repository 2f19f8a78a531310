"""Fast legality checks by table look-ups, because a search checks thousands of configurations for every proposal.

A rule or attribute becomes an array with an entry for each combination of its inputs. A few rules and attributes have
too many combinations for an array. They are evaluated only on the configurations that all other rules allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.columns import Columns, Values
from search_spaces.spaces.counting.constraints import Constraints
from search_spaces.spaces.counting.tables import UNIT, Codes, Relation
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.rules import Attribute, Rule


@dataclass(frozen=True)
class _Lookup:
    """Array with an entry for each combination of some variables: the code of an attribute, or the flag of a rule."""

    output: int | None
    inputs: tuple[int, ...]
    strides: tuple[int, ...]
    table: npt.NDArray[np.generic]

    def of(self, codes: IntArray) -> npt.NDArray[np.generic]:
        """Return the entries for the columns of ``codes`` [variables, n]."""
        keys = codes[self.inputs[0]] * self.strides[0]
        for variable, stride in zip(self.inputs[1:], self.strides[1:], strict=True):
            keys += codes[variable] * stride
        entries: npt.NDArray[np.generic] = self.table[keys]
        return entries


class Legality:
    """Function that checks configurations against all rules, by table look-ups instead of calls of rules.

    Parameters may have fewer values in ``constraints`` than in ``parameters``; the missing values are illegal.
    """

    def __init__(self, parameters: Sequence[Parameter], constraints: Constraints, rules: Sequence[Rule]) -> None:
        self._code = []
        for whole, remaining in zip(parameters, constraints.parameters, strict=True):
            codes = {value: code for code, value in enumerate(remaining.values)}
            self._code.append(np.array([codes.get(value, -1) for value in whole.values]))
        self._row = {name: i for i, name in enumerate(constraints.index)}
        self._domains: dict[str, Values] = {p.name: p.values for p in constraints.parameters + constraints.fixed}
        self._lookups: list[_Lookup] = []
        self._evaluated: list[Attribute | Rule] = []
        known = set[str]()
        for rule, attributes in constraints.in_order(rules):
            for name in attributes:
                if name not in known:
                    known.add(name)
                    self._define(constraints.attributes[name], constraints)
            relation = constraints.relation(rule)
            if relation is None:
                self._evaluated.append(rule)
            elif relation is not UNIT:
                allowed = np.ones(relation.length, dtype=np.bool_)
                self._lookups.append(self._lookup(rule.needs, relation, allowed, None))

    def _define(self, attribute: Attribute, constraints: Constraints) -> None:
        definition, domain = constraints.definition(attribute.name), constraints.domain(attribute.name)
        if definition is None or domain is None:
            self._evaluated.append(attribute)
            return
        self._domains[attribute.name] = domain
        codes = definition.columns[attribute.name]
        self._lookups.append(self._lookup(attribute.needs, definition, codes, self._row[attribute.name]))

    def _lookup(self, needs: Sequence[str], relation: Relation, entries: Codes, output: int | None) -> _Lookup:
        """Return a table with ``entries`` at the combinations that are rows of the relation, and 0 elsewhere."""
        sizes = [len(self._domains[name]) for name in needs]
        table = np.zeros(math.prod(sizes), dtype=entries.dtype)
        table[np.ravel_multi_index([relation.columns[name] for name in needs], sizes)] = entries
        strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        return _Lookup(output, tuple(self._row[name] for name in needs), strides, table)

    def __call__(self, codes: IntArray) -> BoolArray:
        """Return a mask of the configurations, the rows of ``codes`` [n, parameters], that satisfy every rule."""
        variables = np.zeros((len(self._row), len(codes)), dtype=np.int64)
        for i, code in enumerate(self._code):
            variables[i] = code[codes[:, i]]
        rows = np.flatnonzero((variables >= 0).all(axis=0))
        variables = variables[:, rows]
        is_legal = np.ones(len(rows), dtype=np.bool_)
        for lookup in self._lookups:
            entries = lookup.of(variables)
            if lookup.output is not None:
                variables[lookup.output] = entries
                continue
            is_legal &= entries.astype(np.bool_, copy=False)
            if 2 * np.count_nonzero(is_legal) < len(is_legal):
                rows, variables = rows[is_legal], variables[:, is_legal]
                is_legal = np.ones(len(rows), dtype=np.bool_)
        rows = self._evaluate(rows[is_legal], variables[:, is_legal])
        allowed = np.zeros(len(codes), dtype=np.bool_)
        allowed[rows] = True
        return allowed

    def _evaluate(self, rows: IntArray, variables: IntArray) -> IntArray:
        """Return those of ``rows`` whose configurations also satisfy the rules that have no array of combinations."""
        columns_by_name = {name: variables[self._row[name]] for name in self._domains}
        columns = Columns.coded(columns_by_name, self._domains, len(rows))
        for item in self._evaluated:
            if isinstance(item, Attribute):
                columns = columns.with_integers(item.name, item.evaluate(columns))
            elif not (passing := item.evaluate(columns)).all():
                rows, columns = rows[passing], columns.take(passing)
        return rows
