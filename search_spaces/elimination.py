"""Exact counting of legal configurations by variable elimination, without enumerating their product.

The method is bucket elimination (Dechter, "Bucket elimination: a unifying framework for reasoning", 1999) on columnar
tables. Small attributes and rules become relations over their inputs; large ones are evaluated on the rows of a table
as soon as it holds their inputs. Eliminating a variable joins the relations that mention it, and groups the result by
the columns that something else still needs; the group sizes are exact counts of completions. Variables that nothing
ties together never meet in a table: their counts multiply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from search_spaces.columns import Columns
from search_spaces.counting import CountTree, Step
from search_spaces.parameters import IntArray, Parameter, Value
from search_spaces.rules import Attribute, Rule
from search_spaces.tables import UNIT, Codes, Join, Relation, code_type, concatenate, group_starts, keys, product
from search_spaces.tables import sorted_order as order_of

RELATION_ROWS = 1 << 17  # attributes and rules with at most this many input combinations become relations
CHUNK_ROWS = 1 << 17  # rows made at a time by a join: small enough for the cache
TABLE_ROWS = 1 << 26  # rows that a table may keep


class TooTightlyTied(ValueError):
    """The rules tie so many parameters together that counting needs too large a table."""


@dataclass(frozen=True)
class Evaluation:
    """An attribute or rule that is evaluated on the rows of a table once they hold its inputs."""

    name: str
    needs: tuple[str, ...]
    attribute: Attribute | None = None
    rule: Rule | None = None


class Constraints:
    """Parameters, attributes and rules as relations, each made once, when first needed."""

    def __init__(self, parameters: Sequence[Parameter], attributes: Sequence[Attribute]) -> None:
        """``attributes`` must stand after the attributes they need."""
        self.parameters = tuple(parameters)
        self._attributes = {a.name: a for a in attributes}
        self._domains: dict[str, tuple[Value, ...]] = {p.name: p.values for p in parameters}
        self._definitions: dict[str, Relation | None] = {}
        self._rules: dict[str, Relation | None] = {}
        self.order = {name: i for i, name in enumerate([p.name for p in parameters] + list(self._attributes))}

    def domain(self, name: str) -> tuple[Value, ...] | None:
        """The values of a parameter or of an attribute with a relation; None for an attribute without one."""
        if name in self._attributes:
            self.definition(name)
        return self._domains.get(name)

    def needed(self, needs: Iterable[str]) -> tuple[str, ...]:
        """The attributes among ``needs`` and those they are computed from, in an order to compute them."""
        wanted = set(needs)
        for name in reversed(self._attributes):
            if name in wanted:
                wanted.update(self._attributes[name].needs)
        return tuple(name for name in self._attributes if name in wanted)

    def attribute(self, name: str) -> Attribute:
        return self._attributes[name]

    def _inputs(self, needs: tuple[str, ...]) -> tuple[Relation, Columns] | None:
        """Every combination of the inputs, or None where they are too many or not known yet."""
        domains: dict[str, tuple[Value, ...]] = {}
        rows = 1
        for name in sorted(needs, key=self.order.__getitem__):
            domain = self.domain(name)
            if domain is None:
                return None
            domains[name] = domain
            rows *= len(domain)
            if rows > RELATION_ROWS:
                return None
        relation = product({name: len(domain) for name, domain in domains.items()})
        return relation, Columns.coded(relation.columns, domains, relation.length)

    def definition(self, name: str) -> Relation | None:
        """The relation between an attribute and its inputs, or None where it is left to the tables."""
        if name not in self._definitions:
            attribute = self._attributes[name]
            found = self._inputs(attribute.needs)
            self._definitions[name] = None
            if found is not None:
                inputs, columns = found
                distinct, codes = np.unique(attribute.evaluate(columns), return_inverse=True)
                self._domains[name] = tuple(distinct.tolist())
                more = {**inputs.columns, name: codes.astype(code_type(len(distinct)))}
                self._definitions[name] = Relation(more, inputs.length)
        return self._definitions[name]

    def relation(self, rule: Rule) -> Relation | None:
        """The combinations that a rule allows, or None where it is left to the tables."""
        if rule.name not in self._rules:
            found = self._inputs(rule.needs)
            self._rules[rule.name] = None
            if found is not None:
                inputs, columns = found
                self._rules[rule.name] = inputs.take(np.flatnonzero(rule.evaluate(columns)))
        return self._rules[rule.name]


@dataclass(frozen=True)
class _Plan:
    """How one variable would be eliminated: the actions in order, and the estimated rows of the largest table."""

    actions: tuple[Relation | Evaluation | str, ...]  # join it, evaluate it, or join the domain of this variable
    keeps: tuple[str, ...]
    peak: float
    result: float
    touches: int  # variables of the table, as a bit mask


def eliminate(constraints: Constraints, rules: Sequence[Rule]) -> CountTree:
    """Count the configurations of all parameters that every rule allows.

    Raises TooTightlyTied where a table would keep more than TABLE_ROWS rows.
    """
    return _Elimination(constraints, rules).run()


class _Elimination:
    def __init__(self, constraints: Constraints, rules: Sequence[Rule]) -> None:
        self._constraints = constraints
        self._attributes = constraints.needed(name for rule in rules for name in rule.needs)
        self._relations: list[Relation] = []
        self._evaluations: list[Evaluation] = []
        self._domains: dict[str, tuple[Value, ...]] = {p.name: p.values for p in constraints.parameters}
        self._parameters = {p.name for p in constraints.parameters}
        for name in self._attributes:
            definition, attribute = constraints.definition(name), constraints.attribute(name)
            if definition is None:
                self._evaluations.append(Evaluation(name, attribute.needs, attribute=attribute))
            else:
                self._relations.append(definition)
                self._domains[name] = constraints.domain(name) or ()
        for rule in rules:
            relation = constraints.relation(rule)
            if relation is None:
                self._evaluations.append(Evaluation(rule.name, rule.needs, rule=rule))
            else:
                self._relations.append(relation)
        names = [p.name for p in constraints.parameters] + list(self._attributes)
        self._bit = {name: 1 << i for i, name in enumerate(names)}
        self._waiting = list(names)  # variables not eliminated yet, in declared order
        self._undefined = {name for name in self._attributes if name not in self._domains}
        self._steps: list[Step] = []
        self._plans: dict[str, _Plan] = {}

    def run(self) -> CountTree:
        order: list[tuple[str, int]] = []
        if any(relation.length == 0 for relation in self._relations):
            return CountTree.empty()
        while self._waiting:
            for name in self._waiting:
                if name not in self._plans and name not in self._undefined:
                    self._plans[name] = self._plan(name)
            chosen = min(self._plans, key=lambda n: (self._plans[n].peak, self._plans[n].result, self._bit[n]))
            plan = self._plans[chosen]
            table = self._table(plan)
            if table.length == 0:
                return CountTree.empty()
            order.append((chosen, table.length))
            self._finish(plan, table)
        return CountTree(tuple(self._steps), {p.name: p.values for p in self._constraints.parameters})

    # -- planning ------------------------------------------------------------------------------------------------

    def _mask(self, names: Iterable[str]) -> int:
        mask = 0
        for name in names:
            mask |= self._bit[name]
        return mask

    def _plan(self, variable: str) -> _Plan:
        """Join the smallest estimated table first; filter with whatever lies inside the columns at hand."""
        sizes = {name: float(len(domain)) for name, domain in self._domains.items()}
        inside = list(self._relations)
        joins = [r for r in inside if variable in r.columns]
        evaluations = [e for e in self._evaluations if variable in e.needs]
        required = {variable}
        waiting = list(evaluations)
        while waiting:  # an attribute that only a table can give brings its inputs into this table
            for name in waiting.pop().needs:
                required.add(name)
                if name in self._undefined and all(e.name != name or e.attribute is None for e in evaluations):
                    extra = next(e for e in self._evaluations if e.attribute is not None and e.name == name)
                    evaluations.append(extra)
                    waiting.append(extra)
        covered = {name for r in joins for name in r.columns} | self._undefined
        crosses = sorted(required - covered, key=self._bit.__getitem__)
        bound: set[str] = set()
        actions: list[Relation | Evaluation | str] = []
        used: set[int] = set()
        rows, peak = 1.0, 1.0

        def estimate(names: Iterable[str], length: float) -> float:
            grown = rows * length
            for name in names:
                if name in bound:
                    grown /= sizes[name]
            return grown

        while True:
            for evaluation in self._evaluations:
                if id(evaluation) in used or not bound.issuperset(evaluation.needs):
                    continue
                if evaluation.rule is not None:
                    rows *= 0.5
                elif evaluation in evaluations:
                    bound.add(evaluation.name)
                    sizes[evaluation.name] = max(1.0, rows**0.5)
                else:
                    continue
                used.add(id(evaluation))
                actions.append(evaluation)
                break
            else:
                filters = [r for r in inside if id(r) not in used and bound.issuperset(r.columns)]
                if filters:
                    for r in filters:
                        rows = min(rows, estimate(r.columns, r.length))
                        used.add(id(r))
                        actions.append(r)
                    continue
                open_joins = [r for r in joins if id(r) not in used]
                open_crosses = [name for name in crosses if name not in bound]
                choices: list[tuple[float, Relation | str]] = [(estimate(r.columns, r.length), r) for r in open_joins]
                choices += [(rows * sizes[name], name) for name in open_crosses]
                if not choices:
                    break
                grown, action = min(choices, key=lambda choice: choice[0])
                actions.append(action)
                rows = max(grown, 1e-9)
                peak = max(peak, rows)
                if isinstance(action, str):
                    bound.add(action)
                else:
                    bound.update(action.columns)
                    used.add(id(action))
        later = {name for r in self._relations if id(r) not in used for name in r.columns}
        for evaluation in self._evaluations:
            if id(evaluation) not in used:
                later.update(evaluation.needs)
        keeps = tuple(sorted(bound & later, key=self._bit.__getitem__))
        result = rows
        groups = 1.0
        for name in keeps:
            groups *= sizes[name]
        return _Plan(tuple(actions), keeps, peak, min(result, groups), self._mask(bound))

    # -- tables --------------------------------------------------------------------------------------------------

    def _table(self, plan: _Plan) -> Relation:
        made = list(self._pieces(UNIT, plan.actions))
        kept = sum(piece.length for piece in made)
        if kept > TABLE_ROWS:
            raise TooTightlyTied(
                f"the rules tie {', '.join(made[0].columns)} so tightly that counting needs a table of {kept} rows: "
                "split the rules into ones with fewer inputs, or state them on attributes with fewer distinct values"
            )
        return concatenate(made)

    def _pieces(self, table: Relation, actions: Sequence[Relation | Evaluation | str]) -> Iterable[Relation]:
        """Run the actions on a table, in pieces where a join would make more than CHUNK_ROWS rows."""
        for i, action in enumerate(actions):
            if isinstance(action, Evaluation):
                table = self._evaluate(table, action)
                continue
            right = self._domain_relation(action) if isinstance(action, str) else action
            sizes = {name: len(self._domains[name]) for name in (*table.columns, *right.columns)}
            join = Join(table, right, sizes)
            total = int(join.counts.sum())
            if total <= CHUNK_ROWS:
                table = join.rows(0, table.length)
                continue
            ends = np.cumsum(join.counts)
            cuts = np.searchsorted(ends, np.arange(CHUNK_ROWS, total, CHUNK_ROWS)).tolist()
            edges = sorted({0, *cuts, table.length})
            for start, stop in zip(edges[:-1], edges[1:], strict=True):
                yield from self._pieces(join.rows(start, stop), actions[i + 1 :])
            return
        yield table

    def _domain_relation(self, name: str) -> Relation:
        size = len(self._domains[name])
        return Relation({name: np.arange(size, dtype=code_type(size))}, size)

    def _evaluate(self, table: Relation, evaluation: Evaluation) -> Relation:
        domains = {name: self._domains[name] for name in evaluation.needs}
        columns = Columns.coded({name: table.columns[name] for name in evaluation.needs}, domains, table.length)
        if evaluation.rule is not None:
            allowed = evaluation.rule.evaluate(columns)
            return table if bool(allowed.all()) else table.take(np.flatnonzero(allowed))
        assert evaluation.attribute is not None
        values = evaluation.attribute.evaluate(columns)
        codes = self._codes_of(evaluation.name, values)
        return Relation({**table.columns, evaluation.name: codes}, table.length, table.steps)

    def _codes_of(self, name: str, values: IntArray) -> Codes:
        """Codes of an attribute first met in a table; its domain grows with every piece of the table."""
        known = self._domains.get(name, ())
        distinct, inverse = np.unique(values, return_inverse=True)
        code = {value: i for i, value in enumerate(known)}
        new = [v for v in distinct.tolist() if v not in code]
        self._domains[name] = known + tuple(new)
        code.update({value: len(known) + i for i, value in enumerate(new)})
        return np.array([code[v] for v in distinct.tolist()], dtype=np.uint32)[inverse]

    def _finish(self, plan: _Plan, table: Relation) -> None:
        """Group the table by the columns still needed, keep the groups for unranking, and put them in its place."""
        used = {id(action) for action in plan.actions}
        sizes = {name: len(self._domains[name]) for name in plan.keeps}
        (key,), bound = keys((table,), sizes)
        order = order_of(key, bound)
        if order is not None:
            table, key = table.take(order), key[order]
        starts = group_starts(key)
        gone = [name for name in table.columns if name not in plan.keeps]
        step = Step.make(
            {name: table.columns[name] for name in gone if name in self._parameters},
            starts,
            table.length,
            tuple((self._steps[s], s, groups) for s, groups in table.steps.items()),
            is_root=not plan.keeps,
        )
        index = len(self._steps)
        self._steps.append(step)
        self._relations = [r for r in self._relations if id(r) not in used]
        self._evaluations = [e for e in self._evaluations if id(e) not in used]
        if plan.keeps:
            columns = {name: table.columns[name][starts] for name in plan.keeps}
            groups = np.arange(len(starts), dtype=code_type(len(starts)))
            self._relations.append(Relation(columns, len(starts), {index: groups}))
        self._waiting = [name for name in self._waiting if name not in gone]
        self._undefined -= set(table.columns)
        # Plans that share a variable with this table have changed; the others stand.
        self._plans = {
            name: p for name, p in self._plans.items() if name not in gone and not p.touches & plan.touches
        }
