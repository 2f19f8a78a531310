"""Compare traces, ignoring ids of values and line numbers of the user's file."""

from __future__ import annotations

import dataclasses
from typing import Any

from search_spaces.programs.language import arrays, ir, operations
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Source, Trace

_NOWHERE = Source("", 0)
_OF_PROGRAMS = (ir.__name__, arrays.__name__, operations.__name__)


def same(one: Trace, other: Trace) -> bool:
    """Return True if two traces are equal except for ids and line numbers."""
    return normal(one) == normal(other)


def normal(trace: Trace) -> Trace:
    """Return a trace with ids renumbered in order of appearance, and without line numbers."""
    return dataclasses.replace(trace, operations=_Normal().many(trace.operations), location="")


class _Normal:
    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def number(self, of: int) -> int:
        """Return the new id of the value, window, state or loop with id ``of``."""
        return self.numbers.setdefault(of, len(self.numbers))

    def many(self, operations: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
        """Return the operations with new ids for their values, windows, states and loops."""
        return tuple(self.of(o) for o in operations)

    def of(self, part: Any) -> Any:
        """Return a copy, with new ids, of an object of a trace, such as a value or an index."""
        if isinstance(part, Source):
            return _NOWHERE
        if isinstance(part, tuple):
            return tuple(self.of(p) for p in part)
        if isinstance(part, Index):
            number = self.number(part.number) if part.kind in ("loop", "scalar") else part.number
            return Index(part.kind, number, self.of(part.args))
        if isinstance(part, float) and part != part:
            return "nan"
        if not dataclasses.is_dataclass(part) or isinstance(part, type) or type(part).__module__ not in _OF_PROGRAMS:
            return part
        changes = {f.name: self.of(getattr(part, f.name)) for f in dataclasses.fields(part)}
        for name in ("id", "state", "number"):
            if type(changes.get(name)) is int:
                changes[name] = self.number(changes[name])
        return dataclasses.replace(part, **changes)
