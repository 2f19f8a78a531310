"""Attributes and rules as relations over their inputs, and estimates of sizes for relations that would be too large."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from search_spaces.spaces.columns import Columns, Values
from search_spaces.spaces.counting.planning import bits
from search_spaces.spaces.counting.tables import UNIT, Codes, Join, Relation, code_type, product
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.rules import Attribute, Rule

RELATION_ROWS = 1 << 17  # maximum number of combinations of inputs for which an attribute or rule becomes a relation
SAMPLE_ROWS = 1 << 13


class Constraints:
    """Parameters, attributes and rules of a space, as relations. Each relation is computed on first use and cached."""

    def __init__(
        self, parameters: Sequence[Parameter], attributes: Sequence[Attribute], fixed: Sequence[Parameter] = ()
    ) -> None:
        """Prepare the relations.

        Args:
            parameters: Parameters of the space.
            attributes: Attributes in an order in which each follows the attributes that it needs.
            fixed: Constants, as parameters with a single value.
        """
        self.parameters, self.fixed = tuple(parameters), tuple(fixed)
        self.attributes = {a.name: a for a in attributes}
        self._domains: dict[str, Values] = {p.name: p.values for p in (*parameters, *fixed)}
        self._names = [*self._domains, *self.attributes]
        self.index = {name: i for i, name in enumerate(self._names)}
        self._definitions: dict[str, Relation | None] = {}
        self._rules: dict[str, Relation | None] = {}
        self._below = [1 << i for i in range(len(self._domains))]
        for a in attributes:
            below = 0
            for name in a.needs:
                below |= self._below[self.index[name]]
            self._below.append(below)
        self._combinations: dict[int, float] = {}
        self._samples: dict[str, tuple[Codes, Values]] = {}
        self._hashes: dict[str, npt.NDArray[np.uint64]] = {}

    @cached_property
    def constants(self) -> Mapping[str, Values]:
        """Values of constants, and of attributes that depend only on constants."""
        constants: dict[str, Values] = {p.name: p.values for p in self.fixed}
        for name, attribute in self.attributes.items():
            if constants.keys() >= set(attribute.needs):
                constants[name] = attribute.evaluate(self._of_constants(attribute.needs, constants))
        return constants

    def holds(self, rule: Rule) -> bool | None:
        """Return the result of a rule that depends only on constants; None for other rules."""
        if not self.constants.keys() >= set(rule.needs):
            return None
        return bool(rule.evaluate(self._of_constants(rule.needs, self.constants))[0])

    @staticmethod
    def _of_constants(needs: tuple[str, ...], constants: Mapping[str, Values]) -> Columns:
        values = {name: constants[name] for name in needs}
        return Columns.coded({name: np.zeros(1, dtype=np.int64) for name in needs}, values, 1)

    def needed(self, needs: Iterable[str]) -> tuple[str, ...]:
        """Return the attributes in ``needs`` and all attributes that they depend on. Inputs precede their users."""
        wanted = set(needs)
        for name in reversed(self.attributes):
            if name in wanted:
                wanted.update(self.attributes[name].needs)
        return tuple(name for name in self.attributes if name in wanted)

    def in_order(self, rules: Sequence[Rule]) -> list[tuple[Rule, tuple[str, ...]]]:
        """Return the rules, each with the attributes that it needs.

        Rules with few columns come first, because they reduce the number of rows early.
        """
        needed = [(rule, self.needed(rule.needs)) for rule in rules]
        return sorted(needed, key=lambda pair: (len(pair[1]), len(pair[0].needs)))

    def domain(self, name: str) -> Values | None:
        """Return the values of a parameter or attribute; None for an attribute that has no relation."""
        if name in self.attributes:
            self.definition(name)
        return self._domains.get(name)

    def definition(self, name: str) -> Relation | None:
        """Return the relation between an attribute and its inputs; None if the inputs have too many combinations."""
        if name not in self._definitions:
            attribute = self.attributes[name]
            inputs = self._inputs(attribute.needs)
            definition = None
            if inputs is not None:
                relation, columns = inputs
                distinct, codes = np.unique(attribute.evaluate(columns), return_inverse=True)
                self._domains[name] = distinct
                more = {**relation.columns, name: codes.astype(code_type(len(distinct)))}
                definition = Relation(more, relation.length)
            self._definitions[name] = definition  # assign only the finished result, because another thread may read it
        return self._definitions[name]

    def relation(self, rule: Rule) -> Relation | None:
        """Return the relation of the combinations that a rule allows: UNIT for all, None if there are too many."""
        if rule.name not in self._rules:
            inputs = self._inputs(rule.needs)
            allowed_rows = None
            if inputs is not None:
                relation, columns = inputs
                allowed = rule.evaluate(columns)
                allowed_rows = UNIT if bool(allowed.all()) else relation.take(np.flatnonzero(allowed))
            self._rules[rule.name] = allowed_rows
        return self._rules[rule.name]

    def _inputs(self, needs: tuple[str, ...]) -> tuple[Relation, Columns] | None:
        """Return all combinations of the inputs; None if there are too many or the domain of an input is unknown."""
        domains: dict[str, Values] = {}
        rows = 1
        for name in sorted(needs, key=self.index.__getitem__):
            domain = self.domain(name)
            if domain is None:
                return None
            domains[name] = domain
            rows *= len(domain)
            if rows > RELATION_ROWS:
                return None
        relation = product({name: len(domain) for name, domain in domains.items()})
        return relation, Columns.coded(relation.columns, domains, relation.length)

    # -- estimates for planning: variables as bits of an int, in the order of ``index`` -----------------------------

    def mask(self, names: Iterable[str]) -> int:
        """Return the bit mask of the parameters with these names."""
        mask = 0
        for name in names:
            mask |= 1 << self.index[name]
        return mask

    def combinations(self, mask: int) -> float:
        """Return the approximate number of combinations of these variables' values in the product of all domains.

        The number is exact if all variables are parameters. Combinations with attributes are counted in a fixed sample,
        and Chao's estimate of unseen combinations is added ("Nonparametric estimation of the number of classes", 1984).
        The order of elimination depends on the result. So only basic arithmetic is used, which rounds in the same way
        on every machine.
        """
        known = self._combinations.get(mask)
        if known is None:
            parts = self._parts(mask)
            known = self._count(mask) if len(parts) == 1 else prod(map(self.combinations, parts))
            self._combinations[mask] = known
        return known

    def share(self, rule: Rule) -> float:
        """Return the approximate fraction of all combinations of parameter values a rule allows; always above 0."""
        allowed = np.count_nonzero(rule.evaluate(self._sampled(rule.needs)))
        return max(1, int(allowed)) / SAMPLE_ROWS

    def _parts(self, mask: int) -> list[int]:
        """Divide the variables into groups such that no two groups depend on the same parameter."""
        # Pairs for each group: the variables, and the parameters on which the variables depend.
        parts: list[tuple[int, int]] = []
        for i in bits(mask):
            variables, below = 1 << i, self._below[i]
            apart = []
            for part in parts:
                if part[1] & below:
                    variables, below = variables | part[0], below | part[1]
                else:
                    apart.append(part)
            parts = [*apart, (variables, below)]
        return [variables for variables, _ in parts]

    def _count(self, mask: int) -> float:
        names = [self._names[i] for i in bits(mask)]
        domains = [self.domain(name) for name in names]
        most = prod(float("inf") if domain is None else float(len(domain)) for domain in domains)
        if len(names) == 1 and domains[0] is not None:
            return most
        key = np.zeros(SAMPLE_ROWS, dtype=np.uint64)
        for name in names:
            key += self._hash(name)
        key.sort()
        edges = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1], [True])))
        # Element i is the number of combinations that occur i times in the sample.
        times = np.bincount(np.diff(edges), minlength=3)
        unseen = times[1] * (times[1] - 1) / (2 * (times[2] + 1))
        return float(min(most, len(edges) - 1 + unseen))

    def _hash(self, name: str) -> npt.NDArray[np.uint64]:
        """Return, for each row of the sample, a pseudo-random word that the value of a variable in that row determines.

        Sums of the words of several variables distinguish combinations of values.
        """
        if name not in self._hashes:
            codes, values = self._sample(name)
            self._hashes[name] = np.random.PCG64(self.index[name]).random_raw(len(values))[codes]
        return self._hashes[name]

    def _sampled(self, names: Sequence[str]) -> Columns:
        sampled = {name: self._sample(name) for name in names}
        return Columns.coded({n: s[0] for n, s in sampled.items()}, {n: s[1] for n, s in sampled.items()}, SAMPLE_ROWS)

    def _sample(self, name: str) -> tuple[Codes, Values]:
        """Return the codes of a variable in a fixed sample, and the value of each code.

        The sample is drawn from all combinations of parameter values.
        """
        if name not in self._samples:
            self._samples[name] = self._make_sample(name)
        return self._samples[name]

    def _make_sample(self, name: str) -> tuple[Codes, Values]:
        domain = self.domain(name)
        if name not in self.attributes:
            assert domain is not None
            words = np.random.PCG64([1, self.index[name]]).random_raw(SAMPLE_ROWS)
            return (words % np.uint64(len(domain))).astype(np.int64), domain
        needs, definition = self.attributes[name].needs, self.definition(name)
        if definition is not None and domain is not None:
            inputs = Relation({n: self._sample(n)[0] for n in needs}, SAMPLE_ROWS)
            joined = Join(inputs, definition, {n: len(self._sample(n)[1]) for n in needs})
            return joined.rows(0, SAMPLE_ROWS).columns[name], domain
        distinct, codes = np.unique(self.attributes[name].evaluate(self._sampled(needs)), return_inverse=True)
        return codes, distinct
