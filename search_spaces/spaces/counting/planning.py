"""Choice of the order in which variables are eliminated, by estimated sizes of tables.

The plan represents relations by (variables, rows) and evaluations by (inputs, output). Sets of variables are the bits
of an int. A step joins all relations that contain one variable, in the order of estimated size, and applies each
evaluation and filter as soon as its inputs are available. There are two exceptions:

- If a variable no longer occurs in other relations and the next join would enlarge the table, the step ends before this
  join: grouping the smaller table is cheaper.
- If the table hardly grows and grouping would not shrink it, the step continues with another variable, which saves a
  pass.

Sizes of joins are estimated for independent, uniformly distributed values.

As long as tables are small, the next step is the one with the smallest estimated table; among equal sizes, the first in
the order of declaration. If that table has more than ROLLOUT_ROWS rows, greedy steps are appended to each possible next
step until the plan is complete. The step whose plan has the least estimated work is chosen. The result is deterministic
and depends only on sizes.

Held variables are eliminated last, together in one step. This yields the count for each combination of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

ROLLOUT_ROWS = 3e4
# another step replaces the greedy step only if it needs less than this fraction of the work, as estimates are rough
ROLLOUT_GAIN = 0.8
GROWS = 1.5  # a join enlarges a table if the ratio of the new to the old length is above this value
SHRINKS = 0.5  # grouping shrinks a table if the ratio of the new to the old length is below this value
LOOKUP_WORK = 0.5  # work per row of a join that adds only a column, relative to a join that adds rows
GROUPING_WORK = 1.0  # work of grouping one row, relative to the work per row of a join that adds rows

# (kind of action, index): the index of a joined relation, of a variable whose domain is joined, or of an evaluation
Action = tuple[Literal["join", "domain", "evaluate"], int]


def bits(mask: int) -> Iterator[int]:
    """Yield the indices of the bits that are set, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True)
class RelationSize:
    """Size of a relation: its ``variables`` as a bit mask, and the approximate number of rows."""

    variables: int
    rows: float


@dataclass(frozen=True)
class Evaluated:
    """An attribute (``output`` is its bit) or rule (``output`` is 0) to evaluate on rows that contain ``needs``.

    ``share`` is the approximate fraction of rows that the rule allows; 1 for an attribute.
    """

    needs: int
    output: int
    share: float


@dataclass(frozen=True)
class Elimination:
    """One elimination step: ``actions`` compute a table of ``variables``, whose rows are then grouped by ``keeps``.

    Estimates: ``peak`` is the number of rows of the largest intermediate table, ``groups`` the number of groups, and
    ``work`` the number of processed rows.
    """

    actions: tuple[Action, ...]
    variables: int
    keeps: int
    peak: float
    groups: float
    work: float


@dataclass
class EliminationPlan:
    """Relations and variables that remain while elimination steps are planned.

    Attributes:
        waiting: Variables that are not eliminated yet.
        undefined: Attributes without a relation.
        held: Variables to eliminate last.
        combinations: Function that estimates the number of combinations that variables have.
        _steps: Planned steps, by variable.
        _least: For each variable whose step was rejected for its peak: the variables on which a lower bound of the
            peak depends, and the bound.
    """

    relations: dict[int, RelationSize]
    evaluations: dict[int, Evaluated]
    waiting: int
    undefined: int
    combinations: Callable[[int], float]
    held: int = 0
    _steps: dict[int, Elimination] = field(default_factory=dict)
    _least: dict[int, tuple[int, float]] = field(default_factory=dict)

    def next(self) -> Elimination:
        """Return the best next step."""
        greedy = self._greedy()
        if greedy.peak < ROLLOUT_ROWS:
            return greedy
        best, least = greedy, ROLLOUT_GAIN * self._work_to_end(greedy, float("inf"))
        for variable in self._candidates():
            step = self._step(variable)
            assert step is not None
            work = self._work_to_end(step, least)
            if work < least:
                best, least = step, work
        return best

    def take(self, step: Elimination, relation: int, rows: float) -> None:
        """Apply a step to the plan.

        If variables remain in the step's result, the result becomes relation number ``relation``, which has ``rows``
        rows.
        """
        for kind, index in step.actions:
            if kind == "join":
                del self.relations[index]
            elif kind == "evaluate":
                del self.evaluations[index]
        if step.keeps:
            self.relations[relation] = RelationSize(step.keeps, rows)
        self.waiting &= ~(step.variables & ~step.keeps)
        self.undefined &= ~step.variables
        # Planned steps that share no variables with this step remain valid.
        self._steps = {
            v: other
            for v, other in self._steps.items()
            if self.waiting >> v & 1 and not other.variables & step.variables
        }
        self._least = {v: least for v, least in self._least.items() if not least[0] & step.variables}

    def _candidates(self) -> Iterator[int]:
        """Yield the variables that the next step may eliminate."""
        free = self.waiting & ~self.undefined
        return bits(free & ~self.held or free)

    def _greedy(self) -> Elimination:
        """Return the step with the smallest peak; among equal peaks, the one with the fewest groups, then the first."""
        best, least = None, (float("inf"), float("inf"), 0)
        for variable in sorted(self._candidates(), key=lambda v: (v not in self._steps, v)):
            step = self._step(variable, at_most=least[0])
            if step is not None and (step.peak, step.groups, variable) < least:
                best, least = step, (step.peak, step.groups, variable)
        assert best is not None
        return best

    def _work_to_end(self, step: Elimination, enough: float) -> float:
        """Return the estimated work of this step and the greedy steps after it; infinity if it reaches ``enough``."""
        relations, evaluations = dict(self.relations), dict(self.evaluations)
        plan = EliminationPlan(
            relations,
            evaluations,
            self.waiting,
            self.undefined,
            self.combinations,
            self.held,
            dict(self._steps),
            dict(self._least),
        )
        work, index = 0.0, -1
        while True:
            work += step.work
            if work >= enough:
                return float("inf")
            plan.take(step, index, step.groups)
            if not plan.waiting:
                return work
            index -= 1
            step = plan._greedy()

    def _step(self, variable: int, at_most: float = float("inf")) -> Elimination | None:
        """Return the step that eliminates a variable; None if the step's peak is above ``at_most``."""
        known = self._steps.get(variable)
        if known is None and self._least.get(variable, (0, 0.0))[1] <= at_most:
            known = self._plan_step(variable, at_most)
            if known is not None:
                self._steps[variable] = known
        return known

    def _plan_step(self, variable: int, at_most: float) -> Elimination | None:
        """Plan the step that eliminates a variable. If its peak exceeds ``at_most``, return None and record this."""
        draft = _Draft(self, dict(self.relations), dict(self.evaluations))
        if self.waiting & ~self.held or not self.held & ~(1 << variable):
            draft.finish(1 << variable, most_peak=at_most)
        else:  # the last step eliminates all held variables together, so that a row is a combination of their values
            draft.finish(self.waiting, at_most=float("inf"))
        if draft.peak > at_most:
            self._least[variable] = (draft.seen, draft.peak)
            return None
        longer: _Draft | None = draft
        while longer is not None and draft.groups() > SHRINKS * draft.rows:
            longer = None
            for other in bits(draft.keeps() & ~self.held):
                further = draft.copy()
                if further.finish(1 << other, at_most=GROWS * draft.rows):
                    draft = longer = further
                    break
        return draft.step()


@dataclass
class _Draft:
    """An elimination step that is being planned: a table over the variables ``bound``, with about ``rows`` rows.

    ``seen`` are all variables that influenced the plan.
    """

    plan: EliminationPlan
    relations: dict[int, RelationSize]
    evaluations: dict[int, Evaluated]
    bound: int = 0
    seen: int = 0
    rows: float = 1.0
    peak: float = 1.0
    work: float = 0.0
    actions: list[Action] = field(default_factory=list)

    def copy(self) -> _Draft:
        relations, evaluations = dict(self.relations), dict(self.evaluations)
        return _Draft(
            self.plan,
            relations,
            evaluations,
            self.bound,
            self.seen,
            self.rows,
            self.peak,
            self.work,
            list(self.actions),
        )

    def step(self) -> Elimination:
        work = self.work + GROUPING_WORK * self.rows
        return Elimination(tuple(self.actions), self.bound, self.keeps(), self.peak, self.groups(), work)

    def keeps(self) -> int:
        """Return the variables of the table that other relations or evaluations still need."""
        later = self.plan.held if self.plan.waiting & ~self.plan.held else 0
        for r in self.relations.values():
            later |= r.variables
        for e in self.evaluations.values():
            later |= e.needs
        return self.bound & later

    def groups(self) -> float:
        return min(self.rows, self.plan.combinations(self.keeps()))

    def finish(self, target: int, at_most: float | None = None, most_peak: float = float("inf")) -> bool:
        """Join the relations that contain the variable ``target``, in the order of estimated size.

        Returns False as soon as the table would have more than ``at_most`` rows. Otherwise returns True: if all
        relations of the target are joined, if the peak exceeds ``most_peak``, or (without ``at_most``) if the next join
        would enlarge the table and a variable is already finished.
        """
        undefined = self.plan.undefined & ~self.bound
        joins = {i: r for i, r in self.relations.items() if r.variables & target}
        due = {i for i, e in self.evaluations.items() if e.needs & target}
        required = target
        while True:  # an attribute without a relation can be computed only in a table that contains its inputs
            for i in due:
                required |= self.evaluations[i].needs
            more = {i for i, e in self.evaluations.items() if e.output & required & undefined} - due
            if not more:
                break
            due |= more
        covered = undefined
        for r in joins.values():
            covered |= r.variables
        crosses = required & ~covered
        self.seen |= required | covered
        while True:
            self._filter(due, joins)
            best: tuple[float, Action, int] | None = None
            for i, r in joins.items():
                rows = self.rows * r.rows / self.plan.combinations(r.variables & self.bound)
                if best is None or rows < best[0]:
                    best = (rows, ("join", i), r.variables)
            for v in bits(crosses & ~self.bound):
                rows = self.rows * self.plan.combinations(1 << v)
                if best is None or rows < best[0]:
                    best = (rows, ("domain", v), 1 << v)
            if best is None:
                return True
            rows, action, variables = best
            if at_most is not None and rows > at_most:
                return False
            if at_most is None and rows > GROWS * self.rows and self.bound & ~self.keeps():
                return True
            self.work += rows * (1.0 if rows > self.rows else LOOKUP_WORK)
            self.rows = max(rows, 1e-9)
            self.peak = max(self.peak, rows)
            if self.peak > most_peak:
                return True
            self.actions.append(action)
            self.bound |= variables
            if action[0] == "join":
                del self.relations[action[1]], joins[action[1]]

    def _filter(self, due: set[int], joins: dict[int, RelationSize]) -> None:
        """Apply the evaluations and join the relations whose variables are all in the table."""
        again = True
        while again:
            again = False
            outside = ~self.bound
            for i, e in list(self.evaluations.items()):
                if e.needs & outside or (e.output and i not in due):
                    continue
                if e.output:
                    self.bound |= e.output
                    outside = ~self.bound
                self.rows *= e.share
                self.actions.append(("evaluate", i))
                del self.evaluations[i]
                again = True
            for i, r in list(self.relations.items()):
                if not r.variables & outside:
                    self.rows *= min(1.0, r.rows / self.plan.combinations(r.variables))
                    self.actions.append(("join", i))
                    del self.relations[i]
                    joins.pop(i, None)
                    again = True
