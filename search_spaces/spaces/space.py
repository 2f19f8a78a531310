"""Space of a template's legal schedules for a problem. Counting, sampling and moves need no enumeration."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces import neighbourhood
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.ranks import draw_ranks
from search_spaces.spaces.rules import Attribute, Rejection, Rule, Violation
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import Stratum

if TYPE_CHECKING:  # imported on first use, because verification needs neither counting nor sampling
    from search_spaces.spaces.counting.constraints import Constraints
    from search_spaces.spaces.counting.count_tree import CountTree
    from search_spaces.spaces.legality import Legality


# number of schedules that are sampled to find a nearly legal one, for the error message about an empty space
DRAWN = 256
# Among the samples with the same value of ``stratified_by``: minimum share of each combination of ``covering`` values,
# before the shares are scaled to add up to one.
LEAST_SHARE = 1 / 8


class EmptySpace(ValueError):
    """No configuration is legal.

    Attributes:
        rules: The rules that are violated by the configuration that is closest to being legal.
    """

    def __init__(self, message: str, rules: tuple[str, ...]) -> None:
        super().__init__(message)
        self.rules = rules


class Space:
    """A space: parameters with finite domains, derived attributes, and rules that legal schedules satisfy.

    The functions of rules work on single schedules and on columns of schedules. The raw product of the domains may
    have any size: counting and sampling use the tables of ``elimination``, which are computed on first use and cached.
    The space alone determines the order of legal configurations, and so their ranks.

    If a schedule violates one of the ``constraints`` (validity constraints), its kernel does not compile, does not
    launch, or computes wrong results. ``pruning`` rules exclude schedules that are not faster than a simpler or smaller
    schedule. A search applies constraints and pruning rules. A schedule that was tuned for another problem must satisfy
    only the constraints; ``valid`` is the space without pruning rules.

    The values of ``stratified_by`` and ``covering`` divide the space into ``strata``. ``covering`` lists further
    structural parameters, some of whose values occur in few schedules. In a single space, ``stratified_by`` and
    ``covering`` influence only the order of ranks.

    In a sample of a union, all values of ``stratified_by`` are equally frequent, and each combination of values of
    ``covering`` occurs once early in the sample. The rest of the sample is distributed to the combinations in
    proportion to their numbers of schedules, but each combination has a share of at least LEAST_SHARE before
    shares are scaled to add up to one.

    Raises ValueError for missing parameters, duplicate names, unknown names in ``needs`` or ``stratified_by``, and
    attributes that depend on themselves.

    Args:
        name: Name of the template.
        parameters: Tunable parameters, at least one.
        attributes: Values that are derived from parameters, for use in rules.
        constraints: Validity constraints.
        pruning: Pruning rules.
        stratified_by: Parameter whose values have separate strata, or None.
        covering: Further parameters. Samples should cover all combinations of their values.
        constants: Integers that follow from the problem. Constants are columns that attributes and rules can use.
            Schedules do not contain constants, so that a schedule also applies to problems of other sizes.
        described: Name of the space in messages. Default: ``name``.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[Parameter],
        attributes: Sequence[Attribute] = (),
        constraints: Sequence[Rule] = (),
        pruning: Sequence[Rule] = (),
        stratified_by: str | None = None,
        covering: Sequence[str] = (),
        constants: Mapping[str, int] | None = None,
        described: str = "",
    ) -> None:
        self.name = name
        self.described = described or name
        self.parameters = tuple(parameters)
        self.constraints = tuple(constraints)
        self.rules = rules = (*constraints, *pruning)
        if not parameters:
            raise ValueError(f"the space of {name} has no parameters: give it at least one")
        self.constants = dict(constants or {})
        self._fixed = tuple(Parameter(name, (value,)) for name, value in self.constants.items())
        names = [*(p.name for p in parameters), *self.constants, *(a.name for a in attributes)]
        _refuse_twice("column", names)
        _refuse_twice("rule", [r.name for r in rules])
        for user, needs in [(a.name, a.needs) for a in attributes] + [(r.name, r.needs) for r in rules]:
            for need in needs:
                if need not in names:
                    raise ValueError(f"{user} needs {need}, which is neither a parameter nor an attribute")
        self.attributes = _in_order((*self.parameters, *self._fixed), attributes)
        self._attribute = {a.name: a for a in self.attributes}
        self._parameter = {p.name: p for p in self.parameters}
        self._before = {p.name: p.before for p in self.parameters if p.before is not None}
        self.stratified_by = stratified_by
        self.covering = tuple(covering)
        _refuse_twice("stratifying parameter", self.stratifying)
        for parameter in self.stratifying:
            if parameter not in self._parameter:
                raise ValueError(f"{name} cannot be stratified by {parameter}: name one of its parameters")

    def __repr__(self) -> str:
        return f"Space({self.name}: {len(self.parameters)} parameters, {len(self.rules)} rules)"

    # -- counting and sampling -----------------------------------------------------------------------------------

    @property
    def raw_count(self) -> int:
        """Number of configurations in the product of all domains, legal or not."""
        count = 1
        for p in self.parameters:
            count *= len(p.values)
        return count

    @cached_property
    def _constraints(self) -> Constraints:
        return self._constraints_of(self.parameters)

    def _constraints_of(self, parameters: tuple[Parameter, ...]) -> Constraints:
        from search_spaces.spaces.counting.constraints import Constraints

        return Constraints(parameters, self.attributes, self._fixed)

    @cached_property
    def _narrowed(self) -> dict[str, Parameter]:
        """The parameters, without values that a rule on a single parameter rejects. This makes tables much smaller."""
        narrowed = dict(self._parameter)
        for rule in self.rules:
            parameter = narrowed.get(rule.needs[0]) if len(rule.needs) == 1 else None
            if parameter is not None:
                whole = Columns.coded(
                    {parameter.name: np.arange(len(parameter.values))},
                    {parameter.name: parameter.values},
                    len(parameter.values),
                )
                values = tuple(
                    value for value, keep in zip(parameter.values, rule.evaluate(whole), strict=True) if keep
                )
                narrowed[parameter.name] = replace(parameter, values=values or parameter.values, chosen_default=None)
        return narrowed

    @cached_property
    def _narrowed_constraints(self) -> Constraints:
        return self._constraints_of(tuple(self._narrowed.values()))

    @cached_property
    def _tree(self) -> CountTree:
        from search_spaces.spaces.counting.elimination import eliminate

        return eliminate(self._narrowed_constraints, self.rules, self.stratifying)

    def count(self) -> int:
        """Return the exact number of legal configurations. Raises TooTightlyTied if tables would be too large."""
        return self._tree.count

    @property
    def members(self) -> Mapping[str, Space]:
        """Mapping from the name of the template to this space."""
        return {self.name: self}

    @property
    def stratifying(self) -> tuple[str, ...]:
        """Names of the parameters whose combinations of values define strata."""
        return (*([] if self.stratified_by is None else [self.stratified_by]), *self.covering)

    @cached_property
    def strata(self) -> tuple[Stratum, ...]:
        """Return a stratum for each combination of values of ``stratifying`` that legal schedules have.

        Without stratifying parameters, the whole space is one stratum.
        """
        if not self.stratifying:
            return (Stratum(self.name, (), range(self.count())),) if self.count() else ()
        domains = [self._narrowed[name].values for name in self.stratifying]
        return self._with_shares(
            [
                Stratum(self.name, tuple(values[code] for values, code in zip(domains, codes, strict=True)), ranks)
                for codes, ranks in self._tree.ranges(self.stratifying).items()
            ]
        )

    def _with_shares(self, strata: Sequence[Stratum]) -> tuple[Stratum, ...]:
        """Set the shares of strata. The shares of all strata with the same value of ``stratified_by`` add up to one."""
        if not self.covering:
            return tuple(strata)
        first = 0 if self.stratified_by is None else 1
        counts, shares = Counter[tuple[Value, ...]](), Counter[tuple[Value, ...]]()
        for stratum in strata:
            counts[stratum.values[:first]] += stratum.count
        parts = [max(stratum.count / counts[stratum.values[:first]], LEAST_SHARE) for stratum in strata]
        for stratum, part in zip(strata, parts, strict=True):
            shares[stratum.values[:first]] += part  # type: ignore[assignment]  # a Counter of floats
        return tuple(
            replace(stratum, share=part / shares[stratum.values[:first]])
            for stratum, part in zip(strata, parts, strict=True)
        )

    @cached_property
    def _rejections(self) -> tuple[Rejection, ...]:
        raw = self.raw_count
        counts = self._counts_under([r] for r in self.rules)
        return tuple(Rejection(r.name, raw - count, raw) for r, count in zip(self.rules, counts, strict=True))

    def _counts_under(self, rules: Iterable[Sequence[Rule]]) -> list[int]:
        """Return the number of configurations that each set of rules allows. One row limit applies to all counts."""
        from search_spaces.spaces.counting.elimination import eliminate
        from search_spaces.spaces.counting.limits import RowsLeft

        rows = RowsLeft()
        return [eliminate(self._constraints, each, rows=rows).count for each in rules]

    def rejects(self) -> list[Rejection]:
        """Return, for each rule, how many combinations of parameter values the rule rejects on its own (exact)."""
        return list(self._rejections)

    def sample(self, n: int, seed: int, replace: bool = False) -> list[Schedule]:
        """Return ``n`` legal schedules, all equally likely. A seed gives the same schedules on every machine.

        Without ``replace``, all schedules are different. If the space has at most ``n`` schedules, the result is the
        whole space in random order. Raises EmptySpace if no schedule is legal, and ValueError for a negative ``n`` or
        ``seed``.
        """
        self._refuse_empty()
        return self.schedules(self.unrank(draw_ranks(self.count(), n, seed, replace)))

    def unrank(self, ranks: Sequence[int] | npt.NDArray[Any]) -> Columns:
        """Return the configurations with these ranks. Each rank in [0, count()) has exactly one configuration.

        Raises:
            ValueError: A rank is out of range.
        """
        codes = self._tree.unrank(ranks)
        return Columns.coded(codes, {p.name: p.values for p in self._narrowed.values()}, len(ranks))

    def _refuse_empty(self) -> None:
        if self.count():
            return
        raise self.why_empty()

    def why_empty(self) -> EmptySpace:
        """Return the error for an empty space, with the rules violated by the schedule closest to being legal."""
        rng = np.random.default_rng(0)
        sizes = [len(p.values) for p in self.parameters]
        codes = np.stack([rng.integers(0, size, DRAWN) for size in sizes], axis=1)
        best = self._broken_rules(codes)
        closest, fewest = codes[best.argmin()], best.min()
        while True:
            near = [(at, code) for at, size in enumerate(sizes) for code in range(size) if code != closest[at]]
            codes = np.repeat(closest[None, :], len(near) + 1, axis=0)
            for row, (at, code) in enumerate(near):
                codes[row, at] = code
            best = self._broken_rules(codes)
            if best.min() >= fewest:
                break
            closest, fewest = codes[best.argmin()], best.min()
        broken = self.explain(self.schedules(self._from_codes(closest[None, :]))[0])
        # if validity constraints are violated, do not name pruning rules
        needed = {rule.name for rule in self.constraints}
        reasons = [violation for violation in broken if violation.rule in needed] or broken
        reasons_text = "; ".join(f"{violation.reason} ({violation.rule})" for violation in reasons)
        return EmptySpace(f"no schedule of {self.described} is legal: {reasons_text}", tuple(v.rule for v in reasons))

    def _broken_rules(self, codes: IntArray) -> IntArray:
        """Return a number per row. The number is smaller for rows that are more nearly legal.

        A row is more nearly legal if it violates fewer rules, or rules that come later (are more specific).
        """
        whole = self._with_attributes(self._from_codes(codes), [a.name for a in self.attributes])
        count, total = len(self.rules), np.zeros(len(codes), dtype=np.int64)
        for position, rule in enumerate(self.rules):
            weight = count * (3 * count - position) if rule in self.constraints else 1
            total += ~rule.evaluate(whole) * weight
        return total

    # -- one schedule, or many as columns ------------------------------------------------------------------------

    def columns(self, schedules: Sequence[Schedule | Mapping[str, Value]]) -> Columns:
        """Return schedules as columns. Raises ValueError for another template, or invalid parameters or values."""
        return self._from_codes(self._matrix(schedules))

    def schedules(self, columns: Columns) -> list[Schedule]:
        """Return the schedules whose parameters are given as columns."""
        names = [p.name for p in self.parameters]
        decoded = [columns.decode(name) for name in names]
        return [Schedule(self.name, tuple(zip(names, row, strict=True))) for row in zip(*decoded, strict=True)]

    def attributes_of(self, columns: Columns) -> dict[str, IntArray]:
        """Return all attributes of every row, as columns."""
        whole = self._with_attributes(self._checked_columns(columns), [a.name for a in self.attributes])
        return {a.name: whole[a.name] for a in self.attributes}

    def allowed(self, columns: Columns) -> BoolArray:
        """Return a mask of rows that satisfy every rule. ``columns`` has valid values of all parameters."""
        rows = np.arange(len(columns))  # indices of the rows that satisfy all rules evaluated so far
        whole = self._checked_columns(columns)
        for rule, attributes in self._rules_in_order:
            whole = self._with_attributes(whole, attributes)
            is_allowed = rule.evaluate(whole)
            if not is_allowed.all():
                rows, whole = rows[is_allowed], whole.take(is_allowed)
        allowed = np.zeros(len(columns), dtype=np.bool_)
        allowed[rows] = True
        return allowed

    @cached_property
    def _rules_in_order(self) -> list[tuple[Rule, tuple[str, ...]]]:
        return self._constraints.in_order(self.rules)

    def __contains__(self, schedule: object) -> bool:
        """Return True for a legal schedule of the space."""
        if not isinstance(schedule, Schedule):
            return False
        try:
            columns = self.columns([schedule])
        except ValueError:
            return False
        return bool(self.allowed(columns)[0])

    def explain(self, schedule: Schedule | Mapping[str, Value]) -> list[Violation]:
        """Return every rule that a schedule violates, with the reason. The list is empty for a legal schedule.

        Raises ValueError for another template, a missing or unknown parameter, or a value that is not in the domain.
        """
        return self._violations(self._with_attributes(self.columns([schedule]), [a.name for a in self.attributes]))

    def _violations(self, whole: Columns) -> list[Violation]:
        """Return every rule that the first row violates. The columns of ``whole`` include constants and attributes."""
        violations = []
        for rule in self.rules:
            if not bool(rule.evaluate(whole)[0]):
                violations.append(Violation(rule.name, rule.why_not({n: whole.decode(n)[0] for n in rule.needs})))
        return violations

    def validate(self, schedule: Schedule | Mapping[str, Value]) -> None:
        """Raise ValueError if a schedule violates a rule. The message has the first such rule, and the reason.

        Also raises the errors of ``explain``.
        """
        for violation in self.explain(schedule):
            raise ValueError(f"{violation.rule}: {violation.reason}")

    def valid_config(self, schedule: Schedule | Mapping[str, Value]) -> Config:
        """Return a legal schedule with its attributes. Raises ValueError as ``validate`` does."""
        columns = self.columns([schedule])
        whole = self._with_attributes(columns, [a.name for a in self.attributes])
        for violation in self._violations(whole):
            raise ValueError(f"{violation.rule}: {violation.reason}")
        return self._configs([schedule], whole)[0]

    @cached_property
    def valid(self) -> Space:
        """Space without pruning rules: all schedules that compute correct results, including inefficient ones."""
        return Space(self.name, self.parameters, self.attributes, self.constraints, constants=self.constants)

    def with_rules(self, rules: Sequence[Rule]) -> Space:
        """Return the space with additional validity constraints ``rules``, which are a user's requirements."""
        constraints, pruning = (*self.constraints, *rules), self.rules[len(self.constraints) :]
        return Space(
            self.name, self.parameters, self.attributes, constraints, pruning, self.stratified_by, self.covering,
            self.constants,
        )  # fmt: skip

    def config(self, schedule: Schedule | Mapping[str, Value]) -> Config:
        """Return a schedule, which need not be legal, with its attributes. Raises ValueError as ``explain`` does."""
        return self.configs([schedule])[0]

    def configs(self, schedules: Sequence[Schedule | Mapping[str, Value]]) -> list[Config]:
        """Return schedules, which need not be legal, with their attributes. Raises ValueError as ``explain`` does."""
        return self._configs(
            schedules, self._with_attributes(self.columns(schedules), [a.name for a in self.attributes])
        )

    def _configs(self, schedules: Sequence[Schedule | Mapping[str, Value]], whole: Columns) -> list[Config]:
        """Return the configs of schedules. ``whole`` has the parameters and attributes of the schedules as columns."""
        attributes = {a.name: whole[a.name] for a in self.attributes}
        rows = (
            zip(*(array.tolist() for array in attributes.values()), strict=True)
            if attributes
            else ((),) * len(schedules)
        )
        names = self._parameter.keys()
        complete = [s if isinstance(s, Schedule) and s.values.keys() == names else None for s in schedules]
        filled = self.schedules(whole) if None in complete else []
        return [
            Config(schedule or filled[i], (*zip(attributes, row, strict=True), *self.constants.items()))
            for i, (schedule, row) in enumerate(zip(complete, rows, strict=True))
        ]

    def _checked_columns(self, columns: Columns) -> Columns:
        """Check that ``columns`` has all parameters, and return the parameters and the constants as columns."""
        whole = columns.select([p.name for p in self.parameters])
        for name, value in self.constants.items():
            whole = whole.with_integers(name, np.full(len(columns), value, dtype=np.int64))
        return whole

    def _with_attributes(self, columns: Columns, attributes: Sequence[str]) -> Columns:
        """Add to ``columns`` the ``attributes`` that it does not contain yet."""
        whole = columns
        for name in attributes:
            if name in whole:
                continue
            attribute = self._attribute[name]
            whole = whole.with_integers(name, attribute.evaluate(whole))
        return whole

    def _codes(self, schedule: Schedule | Mapping[str, Value]) -> list[int]:
        if isinstance(schedule, Schedule) and schedule.template != self.name:
            raise ValueError(f"this is a schedule of the template {schedule.template}: pass a schedule of {self.name}")
        values = schedule.values if isinstance(schedule, Schedule) else schedule
        if values.keys() != self._parameter.keys():
            # Schedules in older databases also contain constants, which are ignored.
            values = {**self._before, **{n: v for n, v in values.items() if n not in self.constants}}
            for name in values:
                if name not in self._parameter:
                    raise ValueError(f"{self.name} has no parameter {name}: use {', '.join(self._parameter)}")
            if missing := [name for name in self._parameter if name not in values]:
                raise ValueError(f"the schedule lacks {', '.join(missing)}: give every parameter a value")
        return [p.code(values[p.name]) for p in self.parameters]

    def _from_codes(self, codes: IntArray) -> Columns:
        """Convert a matrix [n, parameters] of codes to columns."""
        by_name = {p.name: codes[:, i] for i, p in enumerate(self.parameters)}
        return self._checked_columns(Columns.coded(by_name, {p.name: p.values for p in self.parameters}, len(codes)))

    # -- moves ---------------------------------------------------------------------------------------------------

    @cached_property
    def _tied(self) -> BoolArray:
        """Matrix that is True at a pair of parameters if some rule depends on both, directly or through attributes."""
        index = {p.name: i for i, p in enumerate(self.parameters)}
        tied = np.zeros((len(index), len(index)), dtype=np.bool_)
        for rule in self.rules:
            names = set(rule.needs)
            for name in self._constraints.needed(rule.needs):
                names.update(self._attribute[name].needs)
            below = [index[name] for name in names if name in index]
            tied[np.ix_(below, below)] = True
        return np.triu(tied, 1)

    def _matrix(self, schedules: Sequence[Schedule | Mapping[str, Value]]) -> IntArray:
        rows = np.array([self._codes(s) for s in schedules], dtype=np.int64)
        return rows.reshape(len(schedules), len(self.parameters))

    @cached_property
    def _legal(self) -> Legality:
        from search_spaces.spaces.legality import Legality

        return Legality(self.parameters, self._narrowed_constraints, self.rules)

    def neighbours(self, schedule: Schedule, limit: int | None = None) -> list[Schedule]:
        """Return the legal schedules that result from moving one parameter to a neighbouring value.

        If these are fewer than ``neighbourhood.FEW_NEIGHBOURS``, the result also has the legal schedules that result
        from moving two parameters that occur in the same rule. With ``limit``, at most this number of schedules is
        returned, evenly selected from all. Raises ValueError for a schedule of another space.
        """
        codes = neighbourhood.neighbours(self.parameters, self._tied, self._matrix([schedule])[0], self._legal)
        if limit is not None and limit < len(codes):
            codes = codes[np.arange(limit) * len(codes) // max(limit, 1)]
        return self.schedules(self._from_codes(codes))

    def siblings(self, schedule: Schedule) -> list[Schedule]:
        """Return the other legal schedules that differ only in launch parameters (``Parameter.at_launch``)."""
        at = [i for i, p in enumerate(self.parameters) if p.at_launch]
        if not at:
            return []
        values = itertools.product(*(range(len(self.parameters[i].values)) for i in at))
        own = self._matrix([schedule])
        codes = np.repeat(own, math.prod(len(self.parameters[i].values) for i in at), axis=0)
        codes[:, at] = list(values)
        codes = codes[(codes != own).any(axis=1)]
        columns = self._from_codes(codes)
        return self.schedules(columns.take(self.allowed(columns)))

    def mutate(self, schedules: Sequence[Schedule], rng: np.random.Generator, rate: float = 0.15) -> list[Schedule]:
        """Return one legal mutant of each schedule. Parameters move with probability ``rate``, and at least one moves.

        Up to ``neighbourhood.ROUNDS * neighbourhood.TRIES`` mutants of each schedule are tried, with fewer and fewer
        changes, until a mutant is legal. If none is legal, the schedule itself is returned. Raises ValueError for a
        rate outside (0, 1].
        """
        neighbourhood.check_rate(rate)
        return self.schedules(
            self._from_codes(neighbourhood.mutate(self.parameters, self._matrix(schedules), rng, rate, self._legal))
        )

    def crossover(self, a: Sequence[Schedule], b: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """Return one legal child of each pair. Each parameter comes from one parent, but the child differs from both.

        Up to ``neighbourhood.ROUNDS * neighbourhood.TRIES`` children of each pair are tried until a child is legal. If
        none is legal, the parent in ``a`` is returned. Raises ValueError if ``a`` and ``b`` differ in length.
        """
        neighbourhood.check_pairs(a, b)
        return self.schedules(
            self._from_codes(neighbourhood.crossover(self._matrix(a), self._matrix(b), rng, self._legal))
        )

    # -- for models and databases --------------------------------------------------------------------------------

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the columns of ``encode``."""
        return tuple(name for p in self.parameters for name in p.encoded_names)

    def encode(self, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """Encode schedules for a model: the concatenated encodings of parameters, float32 [n, len(encoded_names)]."""
        codes = self._matrix(schedules)
        return np.concatenate([p.encode_codes(codes[:, i]) for i, p in enumerate(self.parameters)], axis=1)

    @cached_property
    def fingerprint(self) -> str:
        """Version of the space: sha256 (hex) of its parameters with their domains, and of the names of its rules."""
        content = {
            "name": self.name,
            "parameters": [[p.name, p.kind, list(p.values)] for p in self.parameters],
            "rules": [r.name for r in self.rules if not r.requested],
        }
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def _refuse_twice(kind: str, names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"{kind} {name} is defined twice: use different names")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


def _in_order(parameters: Sequence[Parameter], attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
    """Return the attributes in topological order: each follows the attributes that it needs."""
    known = {p.name for p in parameters}
    waiting, ordered = list(attributes), []
    while waiting:
        ready = next((a for a in waiting if known.issuperset(a.needs)), None)
        if ready is None:
            raise ValueError(f"attributes {_listed([a.name for a in waiting])} depend on each other: remove the cycle")
        waiting.remove(ready)
        ordered.append(ready)
        known.add(ready.name)
    return tuple(ordered)
