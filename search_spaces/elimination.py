"""Exact counting of legal configurations by variable elimination, without enumerating their product.

The method is bucket elimination (Dechter, "Bucket elimination: a unifying framework for reasoning", 1999) on columnar
tables. Small attributes and rules become relations over their inputs; large ones are evaluated on the rows of a table
as soon as it holds their inputs. Eliminating a variable joins the relations that mention it, and groups the result by
the columns that something else still needs; the group sizes are exact counts of completions. Variables that nothing
ties together never meet in a table: their counts multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from search_spaces.columns import Columns
from search_spaces.counting import CountTree, Step
from search_spaces.parameters import IntArray, Parameter, Value
from search_spaces.planning import Action, Elimination, Estimate, Evaluated, Plan, bits
from search_spaces.rules import Attribute, Rule
from search_spaces.tables import (
    UNIT,
    Codes,
    Join,
    Relation,
    code_type,
    concatenate,
    group_starts,
    keys,
    product,
    sorted_order,
)

RELATION_ROWS = 1 << 17  # attributes and rules with at most this many input combinations become relations
CHUNK_ROWS = 1 << 17  # rows made at a time by a join: small enough for the cache
SAMPLED_ROWS = 1 << 12
TABLE_ROWS = 1 << 26  # rows that a table may keep


class TooTightlyTied(ValueError):
    """The rules tie so many parameters together that counting needs too large a table."""


class Constraints:
    """Parameters, attributes and rules as relations, each made once, when first needed."""

    def __init__(self, parameters: Sequence[Parameter], attributes: Sequence[Attribute]) -> None:
        """``attributes`` must stand after the attributes they need."""
        self.parameters = tuple(parameters)
        self.attributes = {a.name: a for a in attributes}
        self._order = {name: i for i, name in enumerate([p.name for p in parameters] + list(self.attributes))}
        self._domains: dict[str, tuple[Value, ...]] = {p.name: p.values for p in parameters}
        self._definitions: dict[str, Relation | None] = {}
        self._rules: dict[str, Relation | None] = {}

    def needed(self, needs: Iterable[str]) -> tuple[str, ...]:
        """The attributes among ``needs`` and those they are computed from, in an order to compute them."""
        wanted = set(needs)
        for name in reversed(self.attributes):
            if name in wanted:
                wanted.update(self.attributes[name].needs)
        return tuple(name for name in self.attributes if name in wanted)

    def domain(self, name: str) -> tuple[Value, ...] | None:
        """The values of a parameter or of an attribute with a relation; None for an attribute without one."""
        if name in self.attributes:
            self.definition(name)
        return self._domains.get(name)

    def definition(self, name: str) -> Relation | None:
        """The relation between an attribute and its inputs, or None where it is left to the tables."""
        if name not in self._definitions:
            attribute = self.attributes[name]
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
        """The combinations that a rule allows (without columns where it allows all), or None where it is left to the
        tables."""
        if rule.name not in self._rules:
            found = self._inputs(rule.needs)
            self._rules[rule.name] = None
            if found is not None:
                inputs, columns = found
                allowed = rule.evaluate(columns)
                self._rules[rule.name] = UNIT if bool(allowed.all()) else inputs.take(np.flatnonzero(allowed))
        return self._rules[rule.name]

    def _inputs(self, needs: tuple[str, ...]) -> tuple[Relation, Columns] | None:
        """Every combination of the inputs, or None where they are too many or not known yet."""
        domains: dict[str, tuple[Value, ...]] = {}
        rows = 1
        for name in sorted(needs, key=self._order.__getitem__):
            domain = self.domain(name)
            if domain is None:
                return None
            domains[name] = domain
            rows *= len(domain)
            if rows > RELATION_ROWS:
                return None
        relation = product({name: len(domain) for name, domain in domains.items()})
        return relation, Columns.coded(relation.columns, domains, relation.length)


def eliminate(constraints: Constraints, rules: Sequence[Rule]) -> CountTree:
    """Count the configurations of all parameters that every rule allows.

    Raises TooTightlyTied where a table would keep more than TABLE_ROWS rows.
    """
    return _Tables(constraints, rules).run()


class _Tables:
    """The relations and evaluations that are left, and the steps done. Relation i of the plan is ``_relations[i]``."""

    def __init__(self, constraints: Constraints, rules: Sequence[Rule]) -> None:
        self._c = constraints
        relations: list[Relation] = []
        evaluations: list[tuple[Attribute | Rule, str | None]] = []
        needs: set[str] = set()
        for rule in rules:
            relation = constraints.relation(rule)
            if relation is UNIT:
                continue
            needs.update(rule.needs)
            if relation is None:
                evaluations.append((rule, None))
            else:
                relations.append(relation)
        self._parameters = {p.name: p.values for p in constraints.parameters}
        self._domains: dict[str, tuple[Value, ...]] = dict(self._parameters)
        attributes = constraints.needed(needs)
        for name in attributes:
            definition = constraints.definition(name)
            if definition is None:
                evaluations.append((constraints.attributes[name], name))
            else:
                relations.append(definition)
                self._domains[name] = constraints.domain(name) or ()
        self._names = [*self._parameters, *attributes]
        self._index = {name: i for i, name in enumerate(self._names)}
        self._relations = dict(enumerate(relations))
        self._evaluations = dict(enumerate(evaluations))
        self._facts = [(self._mask(r.columns), r) for r in relations]
        self._projected: dict[tuple[int, int], float] = {}
        self._steps: list[Step] = []
        estimates = self._estimates() if evaluations else []
        self._plan = Plan(
            sizes={self._index[name]: float(len(domain)) for name, domain in self._domains.items()},
            relations={i: Estimate(self._mask(r.columns), float(r.length)) for i, r in self._relations.items()},
            evaluations={
                i: Evaluated(self._mask(e.needs), 0 if output is None else self._mask([output]), estimates[i])
                for i, (e, output) in self._evaluations.items()
            },
            waiting=(1 << len(self._names)) - 1,
            undefined=self._mask(name for name in self._names if name not in self._domains),
            facts=self._combinations,
        )

    def run(self) -> CountTree:
        if any(relation.length == 0 for relation in self._relations.values()):
            return CountTree.empty()
        while self._plan.waiting:
            step = self._plan.next()
            pieces = list(self._pieces(UNIT, step.actions))
            if not pieces:
                return CountTree.empty()
            self._finish(step, pieces)
        return CountTree(tuple(self._steps), self._parameters)

    def _estimates(self) -> list[float]:
        """For each evaluation, in a sample of the raw product: the distinct values, or the share that is allowed."""
        rows = SAMPLED_ROWS
        words = np.random.PCG64(0).random_raw((len(self._parameters), rows))
        table = Relation({name: ((word>>np.uint64(32)) % np.uint64(len(v))).astype(np.int64) for word, (name, v) in zip(words, self._parameters.items(), strict=True)}, rows)
        result = [0.0] * len(self._evaluations)
        domains = dict(self._domains)
        for name in self._names[len(self._parameters):]:
            for i, (e, output) in self._evaluations.items():
                if output == name:
                    columns = Columns.coded({n: table.columns[n] for n in e.needs}, domains, rows)
                    distinct, codes = np.unique(e.evaluate(columns), return_inverse=True)
                    domains[name] = tuple(distinct.tolist())
                    result[i] = float(len(distinct))
                    table = Relation({**table.columns, name: codes}, rows)
                    break
            else:
                d = next(r for m, r in self._facts if name in r.columns and r is self._c.definition(name))
                table = Join(table, d, {n: len(domains[n]) for n in table.columns}).rows(0, rows)
        for i, (e, output) in self._evaluations.items():
            if output is None:
                columns = Columns.coded({n: table.columns[n] for n in e.needs}, domains, rows)
                result[i] = max(1/rows, float(np.mean(e.evaluate(columns))))
        return result

    def _mask(self, names: Iterable[str]) -> int:
        mask = 0
        for name in names:
            mask |= 1 << self._index[name]
        return mask

    def _combinations(self, mask: int, product: Callable[[int], float]) -> float:
        """Domain sizes multiplied, and reduced by what single relations say about the variables they share with it."""
        left, size = mask, 1.0
        parts = []
        for i, (variables, relation) in enumerate(self._facts):
            shared = variables & mask
            if shared & (shared - 1):
                key = i, shared
                count = self._projected.get(key)
                if count is None:
                    columns = {self._names[v]: len(self._domains[self._names[v]]) for v in bits(shared)}
                    (made,), bound = keys((relation,), columns)
                    count = float(np.count_nonzero(np.bincount(made)) if bound < 1<<22 else len(np.unique(made)))
                    self._projected[key] = count
                ratio = count / product(shared)
                if ratio < 1.0:
                    parts.append((ratio, i, shared, count))
        for ratio, i, shared, count in sorted(parts):
            fresh = shared & left
            if fresh == shared:
                size *= count
                left &= ~shared
            elif fresh:
                k = (i, shared & ~fresh)
                given = self._projected.get(k)
                if given is None:
                    o = shared & ~fresh
                    columns = {self._names[v]: len(self._domains[self._names[v]]) for v in bits(o)}
                    (made,), bound = keys((self._facts[i][1],), columns)
                    given = self._projected[k] = float(np.count_nonzero(np.bincount(made)) if bound < 1<<22 else len(np.unique(made)))
                size *= min(count / given, product(fresh))
                left &= ~shared
        return size * product(left)

    def _pieces(self, table: Relation, actions: Sequence[Action]) -> Iterator[Relation]:
        """Run the actions on a table, in pieces where a join would make more than CHUNK_ROWS rows; none is empty."""
        for i, (kind, index) in enumerate(actions):
            if not table.length:
                return
            if kind == "evaluate":
                table = self._evaluate(table, *self._evaluations[index])
                continue
            right = self._relations[index] if kind == "join" else self._domain(self._names[index])
            join = Join(table, right, {name: len(self._domains[name]) for name in table.columns})
            total = int(join.counts.sum())
            if total <= CHUNK_ROWS:
                table = join.rows(0, table.length)
                continue
            cuts = np.searchsorted(np.cumsum(join.counts), np.arange(CHUNK_ROWS, total, CHUNK_ROWS)).tolist()
            edges = sorted({0, *cuts, table.length})
            for start, stop in zip(edges[:-1], edges[1:], strict=True):
                yield from self._pieces(join.rows(start, stop), actions[i + 1 :])
            return
        if table.length:
            yield table

    def _domain(self, name: str) -> Relation:
        size = len(self._domains[name])
        return Relation({name: np.arange(size, dtype=code_type(size))}, size)

    def _evaluate(self, table: Relation, what: Attribute | Rule, output: str | None) -> Relation:
        domains = {name: self._domains[name] for name in what.needs}
        columns = Columns.coded({name: table.columns[name] for name in what.needs}, domains, table.length)
        result = what.evaluate(columns)
        if output is None:
            return table if bool(result.all()) else table.take(np.flatnonzero(result))
        return Relation({**table.columns, output: self._codes(output, result)}, table.length, table.steps)

    def _codes(self, attribute: str, values: IntArray) -> Codes:
        """Codes of an attribute first met in a table; its domain grows with every piece of that table."""
        known = self._domains.get(attribute, ())
        distinct, inverse = np.unique(values, return_inverse=True)
        code = {value: i for i, value in enumerate(known)}
        for value in distinct.tolist():
            code.setdefault(value, len(code))
        self._domains[attribute] = tuple(code)
        return np.array([code[v] for v in distinct.tolist()], dtype=np.uint32)[inverse]

    def _finish(self, step: Elimination, pieces: list[Relation]) -> None:
        """Group the table by the columns still needed, keep the groups for unranking, and put them in its place."""
        kept = sum(piece.length for piece in pieces)
        if kept > TABLE_ROWS:
            raise TooTightlyTied(
                f"the rules tie {', '.join(pieces[0].columns)} so tightly that counting needs a table of {kept} rows: "
                "split them into rules with fewer inputs, or state them on attributes with fewer distinct values"
            )
        table = concatenate(pieces)
        pieces.clear()
        keeps = [self._names[i] for i in bits(step.keeps)]
        (key,), bound = keys((table,), {name: len(self._domains[name]) for name in keeps})
        order = sorted_order(key, bound)
        if order is not None:
            table, key = table.take(order), key[order]
        starts = group_starts(key)
        gone = [name for name in table.columns if name not in keeps]
        index = len(self._steps)
        self._steps.append(
            Step.make(
                {name: table.columns[name] for name in gone if name in self._parameters},
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
        defined = {i: float(len(self._domains[self._names[i]])) for i, _ in step.outputs}
        self._plan.take(step, result, float(len(starts)), defined)
