"""Schedules: one value for every parameter of a kernel template's space."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from search_spaces.short_repr import cut
from search_spaces.spaces.parameters import Value


@dataclass(frozen=True)
class Schedule:
    """Values of all parameters of a template.

    ``items`` contains (parameter, value) in the order of the parameters of ``template``. Iteration and indexing work as
    for a mapping.
    """

    template: str
    items: tuple[tuple[str, Value], ...]

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Values of the parameters by name."""
        return dict(self.items)

    @cached_property
    def _hash(self) -> int:
        return hash((self.template, self.items))

    def __repr__(self) -> str:
        shown = (repr(self.template), *(f"{name}={value!r}" for name, value in self.items))
        return cut(f"Schedule({', '.join(shown)})")

    def __hash__(self) -> int:  # cached, because a search hashes schedules far more often than it creates them
        return self._hash

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items)

    def integer(self, name: str) -> int:
        """Return the value of an integer parameter. Raises TypeError for a text parameter."""
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"parameter {name} is {value!r}, not an integer")
        return value

    def text(self, name: str) -> str:
        """Return the value of a text parameter. Raises TypeError for an integer parameter."""
        value = self[name]
        if not isinstance(value, str):
            raise TypeError(f"parameter {name} is {value!r}, not a string")
        return value

    def replace(self, **changes: Value) -> Self:
        """Return a copy with other values of some parameters. Raises KeyError for an unknown parameter."""
        for name in changes:
            if name not in self.values:
                raise KeyError(name)
        return type(self)(self.template, tuple((name, changes.get(name, value)) for name, value in self.items))

    def to_json(self) -> dict[str, Value]:
        """Return the values of the parameters by name."""
        return dict(self.items)

    @classmethod
    def from_json(cls, template: str, data: Mapping[str, Any]) -> Self:
        """Return the schedule whose ``to_json()`` was ``data``.

        Raises ValueError if ``data`` is empty, or if a value is neither an integer nor a string.
        """
        if not data:
            raise ValueError("a schedule needs at least one parameter")
        for name, value in data.items():
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                raise ValueError(f"parameter {name} cannot be {value!r}: use an integer or a string")
        return cls(template, tuple(data.items()))

    def key(self) -> str:
        """Canonical text of the template and all values, which identifies the schedule in databases."""
        return json.dumps([self.template, self.to_json()], sort_keys=True, separators=(",", ":"))
