"""In which order to eliminate variables, from estimated table sizes.

The plan sees relations as (variables, rows) and evaluations as (inputs, output), variables as bits of an int. A step
eliminates one variable: everything that mentions it is joined, smallest estimated table first, and each evaluation or
filter is applied as soon as its inputs are there. The estimate of a join takes values as independent and uniform.

While tables stay small, the next variable is the one with the smallest estimated table (declared order breaks ties).
Above ROLLOUT_ROWS every variable is tried in turn: eliminate it, go on greedily to the end on estimates alone, and take
the one with the least work in total. Everything is deterministic, and depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

ROLLOUT_ROWS = 1e5
GROW = 1.5
W1 = 0.5
W2 = 1
FUSE = 0.5

Action = tuple[Literal["join", "domain", "evaluate"], int]  # index of a relation, a variable, an evaluation


def bits(mask: int) -> Iterator[int]:
    """Indices of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True)
class Estimate:
    """A relation over ``variables`` (mask) with about ``rows`` rows."""

    variables: int
    rows: float


Facts = Callable[[int, Callable[[int], float]], float]


@dataclass(frozen=True)
class Evaluated:
    """An attribute (``output`` is its bit) or a rule (``output`` is 0) to be evaluated on rows that hold ``needs``.
    ``estimate`` is about how many values the attribute has, or which share of the rows the rule allows."""

    needs: int
    output: int
    estimate: float


@dataclass(frozen=True)
class Elimination:
    """One step. ``peak`` is the largest estimated table, ``work`` the sum of all, ``rows`` the last one before and
    ``groups`` after grouping by ``keeps``."""

    actions: tuple[Action, ...]
    variables: int
    keeps: int
    peak: float
    work: float
    rows: float
    groups: float
    outputs: tuple[tuple[int, float], ...]  # attributes defined on the way, and their estimated domain sizes


@dataclass
class Plan:
    """What is left to do: relations and evaluations by index, variables still there, and the plans made so far."""

    sizes: dict[int, float]  # domain size of every variable that has a domain
    relations: dict[int, Estimate]
    evaluations: dict[int, Evaluated]
    waiting: int
    undefined: int
    facts: Facts
    _known: dict[int, Elimination] = field(default_factory=dict)
    _products: dict[int, float] = field(default_factory=dict)
    _distinct: dict[int, float] = field(default_factory=dict)

    def next(self) -> Elimination:
        """The step to take now."""
        greedy = self._greedy()
        if greedy.peak < ROLLOUT_ROWS:
            return greedy
        best, best_cost = greedy, self._cost_to_end(greedy, float("inf")) * 0.9
        for variable in bits(self.waiting & ~self.undefined):
            step = self._step(variable)
            if step.actions != best.actions:
                cost = self._cost_to_end(step, best_cost)
                if cost < best_cost:
                    best, best_cost = step, cost
        return best

    def take(self, step: Elimination, relation: int, rows: float, sizes: dict[int, float]) -> None:
        """Do a step: its result becomes the relation of index ``relation`` with ``rows`` rows, where it keeps any
        variable; ``sizes`` gives the domains of the attributes that it defined."""
        for kind, index in step.actions:
            if kind == "join":
                del self.relations[index]
            elif kind == "evaluate":
                del self.evaluations[index]
        if step.keeps:
            self.relations[relation] = Estimate(step.keeps, rows)
        self.waiting &= ~(step.variables & ~step.keeps)
        self.undefined &= ~step.variables
        if sizes:
            self.sizes = {**self.sizes, **sizes}
            self._products, self._distinct = {}, {}
        # A step that shares no variable with this one is planned as before.
        self._known = {
            v: known for v, known in self._known.items() if self.waiting >> v & 1 and not known.variables & step.variables
        }

    def _copy(self) -> Plan:
        return Plan(
            self.sizes,
            dict(self.relations),
            dict(self.evaluations),
            self.waiting,
            self.undefined,
            self.facts,
            dict(self._known),
            self._products,
            self._distinct,
        )

    def _greedy(self) -> Elimination:
        steps = [self._step(variable) for variable in bits(self.waiting & ~self.undefined)]
        return min(steps, key=lambda step: (step.peak, step.groups))

    def _cost_to_end(self, step: Elimination, give_up: float) -> float:
        """Estimated work of this step and of a greedy end; infinite where it passes ``give_up``."""
        plan, cost, index = self._copy(), 0.0, -1
        while True:
            cost += step.work
            if cost >= give_up:
                return float("inf")
            plan.take(step, index, step.groups, dict(step.outputs))
            if not plan.waiting:
                return cost
            index -= 1
            step = plan._greedy()

    def _product(self, mask: int) -> float:
        known = self._products.get(mask)
        if known is None:
            known = 1.0
            for variable in bits(mask):
                known *= self.sizes[variable]
            self._products[mask] = known
        return known

    def _combinations(self, mask: int) -> float:
        """About how many combinations of these variables occur."""
        mask &= ~self.undefined
        known = self._distinct.get(mask)
        if known is None:
            known = self._distinct[mask] = self.facts(mask, self._product)
        return known

    def _step(self, variable: int) -> Elimination:
        known = self._known.get(variable)
        if known is None:
            known = self._known[variable] = self._plan(1 << variable)
        return known

    def _plan(self, variable: int) -> Elimination:
        draft = _Draft(self)
        draft.eliminate(variable, float("inf"))
        extended = True
        while extended and draft.groups() > FUSE * draft.rows:
            extended = False
            for other in bits(draft.keeps()):
                longer = draft.copy()
                if longer.eliminate(1 << other, GROW * draft.rows):
                    draft, extended = longer, True
                    break
        return draft.done()

    def size_of(self, mask: int) -> float:
        return self._product(mask)

    def combinations(self, mask: int) -> float:
        return self._combinations(mask)


class _Draft:
    """A step in the making: a table with about ``rows`` rows over the variables ``bound``."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._relations, self._evaluations = dict(plan.relations), dict(plan.evaluations)
        self._actions: list[Action] = []
        self._defined: dict[int, float] = {}
        self.bound, self.rows, self._peak, self._work = 0, 1.0, 1.0, 0.0

    def copy(self) -> _Draft:
        new = _Draft.__new__(_Draft)
        new._plan, new._relations, new._evaluations = self._plan, dict(self._relations), dict(self._evaluations)
        new._actions, new._defined = list(self._actions), dict(self._defined)
        new.bound, new.rows, new._peak, new._work = self.bound, self.rows, self._peak, self._work
        return new

    def _product(self, mask: int) -> float:
        value = self._plan.size_of(mask & ~self._plan.undefined)
        for attribute, size in self._defined.items():
            if mask >> attribute & 1:
                value *= size
        return value

    def keeps(self) -> int:
        later = 0
        for r in self._relations.values():
            later |= r.variables
        for e in self._evaluations.values():
            later |= e.needs
        return self.bound & later

    def groups(self) -> float:
        keeps = self.keeps()
        plain = keeps & ~self._plan.undefined
        return min(self.rows, self._plan.combinations(plain) * self._product(keeps & self._plan.undefined))

    def done(self) -> Elimination:
        return Elimination(
            tuple(self._actions), self.bound, self.keeps(), self._peak, self._work + W2 * self.rows, self.rows, self.groups(),
            tuple(self._defined.items()),
        )

    def eliminate(self, target: int, limit: float) -> bool:
        """Join what mentions the variables ``target``, smallest table first. False where ``limit`` rows are passed."""
        undefined = self._plan.undefined & ~self.bound
        joins = {i: r for i, r in self._relations.items() if r.variables & target}
        due = {i for i, e in self._evaluations.items() if e.needs & target}
        required = target
        while True:  # an attribute that only a table can give brings its inputs into this table
            for i in due:
                required |= self._evaluations[i].needs
            more = {i for i, e in self._evaluations.items() if e.output & required & undefined} - due
            if not more:
                break
            due |= more
        covered = undefined
        for r in joins.values():
            covered |= r.variables
        crosses = required & ~covered
        while True:
            self._filter(due, joins)
            best: tuple[float, Action, int] | None = None
            for i, r in joins.items():
                grown = self.rows * r.rows / self._product(r.variables & self.bound)
                if best is None or grown < best[0]:
                    best = (grown, ("join", i), r.variables)
            for v in bits(crosses & ~self.bound):
                grown = self.rows * self._plan.sizes[v]
                if best is None or grown < best[0]:
                    best = (grown, ("domain", v), 1 << v)
            if best is None:
                return True
            if limit < float("inf"):
                if best[0] > limit:
                    return False
            elif best[0] > GROW * self.rows and self.bound & ~self.keeps():
                return True  # something is finished with: group before the table grows
            before = self.rows
            self.rows, action, variables = max(best[0], 1e-9), best[1], best[2]
            self._actions.append(action)
            self.bound |= variables
            if action[0] == "join":
                del self._relations[action[1]], joins[action[1]]
            self._peak = max(self._peak, self.rows)
            self._work += self.rows * (1.0 if self.rows > before else W1)

    def _filter(self, due: set[int], joins: dict[int, Estimate]) -> None:
        """Evaluate and join whatever lies inside the variables at hand."""
        progress = True
        while progress:
            progress = False
            for i, e in list(self._evaluations.items()):
                if e.needs & ~self.bound or (e.output and i not in due):
                    continue
                if e.output:
                    self.bound |= e.output
                    self._defined[e.output.bit_length() - 1] = e.estimate
                else:
                    self.rows *= e.estimate
                self._actions.append(("evaluate", i))
                del self._evaluations[i]
                progress = True
            for i, r in list(self._relations.items()):
                if not r.variables & ~self.bound:
                    self.rows *= min(1.0, r.rows / self._product(r.variables))
                    self._actions.append(("join", i))
                    del self._relations[i]
                    joins.pop(i, None)
                    progress = True
