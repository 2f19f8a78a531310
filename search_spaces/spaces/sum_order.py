"""Order of sums: the order in which a kernel adds the terms of each result.

Floating-point addition is not associative, so two schedules give equal bits only if they add in the same order.
``SumOrder`` represents this order as a value: equal orders give equal bits. An ``OrderPart`` computes one component of
the order from a few columns of a space. With so few columns, a space with a rule on the order can still be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.space import Space

EXACT = "exact"  # value of a component if every order of the sums gives the same bits
RULE = "order_of_sums"  # prefix of the names of rules that restrict the order of sums


class OrderTerm(NamedTuple):
    """One component of an order of sums.

    Attributes:
        name: Name of the component, such as "ranges of k".
        value: Canonical value of the component. Equal values mean the same order.
        batch_dependent: True if the order differs between rows, or depends on the number of rows.
    """

    name: str
    value: str
    batch_dependent: bool = False


@dataclass(frozen=True)
class SumOrder:
    """The order in which a schedule's kernel adds the terms of each result. Hashable and comparable.

    Schedules of equal order give equal bits for equal inputs. Two orders also differ if they
    use instructions within which the hardware may add terms in different orders. The emulator does not show this
    difference, because it always adds one term after another.

    Attributes:
        terms: Components whose value is not "", in the order in which the template defines them.
    """

    terms: tuple[OrderTerm, ...]

    def __str__(self) -> str:
        """Return the components in one line; "no sums" if there are none."""
        return "; ".join(f"{term.name}: {term.value}" for term in self.terms) or "no sums"

    def __getitem__(self, name: str) -> str:
        """Return the value of a component; "" if the order does not have this component."""
        return next((term.value for term in self.terms if term.name == name), "")

    @property
    def batch_dependent(self) -> tuple[OrderTerm, ...]:
        """Names of the components that differ between rows, or depend on the number of rows."""
        return tuple(term for term in self.terms if term.batch_dependent)

    def differences(self, other: SumOrder) -> tuple[str, ...]:
        """Return a short text for each component in which two orders differ; empty if the orders are equal."""
        names = dict.fromkeys(term.name for term in (*self.terms, *other.terms))
        return tuple(
            f"{name}: {self[name] or 'none'}, not {other[name] or 'none'}"
            for name in names
            if self[name] != other[name]
        )

    def without(self, *names: str) -> SumOrder:
        """Return the order without some components."""
        return SumOrder(tuple(term for term in self.terms if term.name not in names))

    def to_json(self) -> list[list[Any]]:
        """Return a JSON array with [name, value, batch_dependent] for each component."""
        return [list(term) for term in self.terms]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the order whose ``to_json()`` was ``data``. Raises ValueError for other data."""
        terms = [tuple(term) if isinstance(term, list) else () for term in data] if isinstance(data, list) else [()]
        if any(len(term) != 3 or [type(part) for part in term] != [str, str, bool] for term in terms):
            raise ValueError(f"an order of sums is a list of [name, value, batch_dependent], not {data!r:.60}")
        return cls(tuple(OrderTerm(*term) for term in terms))


def _never(**values: Value) -> bool:
    return False


class OrderPart(NamedTuple):
    """Definition of one component of the order of sums of a template's schedules.

    Attributes:
        name: Name of the component.
        columns: Parameters, attributes or constants of the space that determine the component.
        value: Function that returns the value, or "" if a schedule does not have the component. Its keyword arguments
            are these columns.
        batch_dependent: Function of the same columns that returns True if the order depends on the batch.
    """

    name: str
    columns: tuple[str, ...]
    value: Callable[..., str]
    batch_dependent: Callable[..., bool] = _never

    def term(self, values: Mapping[str, Value]) -> OrderTerm:
        """Return the component of one configuration."""
        own = {name: values[name] for name in self.columns}
        return OrderTerm(self.name, self.value(**own), bool(self.batch_dependent(**own)))


def order_of(parts: Sequence[OrderPart], config: Config) -> SumOrder:
    """Return the order of a configuration."""
    terms = [part.term({name: config[name] for name in part.columns}) for part in parts]
    return SumOrder(tuple(term for term in terms if term.value))


@dataclass(frozen=True)
class OrderRule:
    """A requirement on the order of sums. At least one of the attributes must be set.

    Attributes:
        reference: The order that every schedule must have; None for any order.
        batch_invariant: True if the order must not depend on the batch.
    """

    reference: SumOrder | None = None
    batch_invariant: bool = False

    def __post_init__(self) -> None:
        if self.reference is None and not self.batch_invariant:
            raise ValueError("a rule on the order of sums needs a reference, batch_invariant, or both")

    def why_not(self, order: SumOrder) -> str:
        """Return the reason why an order violates the rule, in one line; "" if the order satisfies the rule."""
        if self.reference is not None and order != self.reference:
            return "; ".join(self.reference.differences(order)) or "only one of the two orders depends on the batch"
        if self.batch_invariant and order.batch_dependent:
            return f"the order depends on the batch ({_listed(order.batch_dependent)})"
        return ""

    def restricted(self, space: Space, parts: Sequence[OrderPart]) -> Space:
        """Return the space of the schedules in ``space`` that satisfy the rule. It can still be counted exactly."""
        terms = self.reference.terms if self.reference is not None else ()
        missing = [term.name for term in terms if term.name not in {part.name for part in parts}]
        reasons = [f"{space.name} has no component {name}, which the reference has" for name in missing]
        reasons += [reason for part in parts if not part.columns and (reason := self._of_term(part.term({})))]
        rules = [self._rule(part) for part in parts if part.columns]
        return space.with_rules([*rules, *([_refuse_all(space, "; ".join(reasons))] if reasons else [])])

    def _rule(self, part: OrderPart) -> Rule:
        def why_not(**values: Value) -> str | None:
            return self._of_term(part.term(values)) or None

        name = f"{RULE}_{part.name.replace(' ', '_').replace('-', '_')}"
        rule = Rule.refusing(name, why_not, "bits as required", names={column: column for column in part.columns})
        return replace(rule, requested=True)

    def _of_term(self, term: OrderTerm) -> str:
        """Return the reason why a component violates the rule; "" if the component satisfies the rule."""
        if self.reference is not None and term.value != self.reference[term.name]:
            return f"{term.name}: {term.value or 'none'}, but the reference has {self.reference[term.name] or 'none'}"
        if self.batch_invariant and term.value and term.batch_dependent:
            return f"{term.name}: {term.value}, which depends on the batch"
        return ""


def _refuse_all(space: Space, reason: str) -> Rule:
    column = space.parameters[0].name
    rule = Rule.refusing(f"{RULE}_other", lambda **values: reason, names={column: column})
    return replace(rule, requested=True)


def _listed(terms: Sequence[OrderTerm]) -> str:
    return "; ".join(f"{term.name}: {term.value}" for term in terms)
