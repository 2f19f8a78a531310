"""A config: values of all parameters of a space, and of all attributes that are derived from the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule


@dataclass(frozen=True)
class Config(Mapping[str, Value]):
    """A mapping from the names of parameters and attributes to values, in the order of the space.

    ``schedule`` has the values of parameters, and ``attributes`` the derived values, so that lowering and cost counts
    need not compute them again.
    """

    schedule: Schedule
    attributes: tuple[tuple[str, int], ...]

    @cached_property
    def _values(self) -> dict[str, Value]:
        return {**self.schedule.values, **dict(self.attributes)}

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self.schedule)

    def integer(self, name: str) -> int:
        """Return the value of an integer parameter or an attribute.

        Raises TypeError for a text parameter, KeyError for an unknown name.
        """
        value = self._values[name]
        if not isinstance(value, int):
            raise TypeError(f"parameter {name} is {value!r}, not an integer")
        return value

    def integers(self, *names: str) -> tuple[int, ...]:
        """Return the values of several integer parameters or attributes, in the order of ``names``."""
        values = self._values
        integers: list[Any] = [values[name] for name in names]
        if {*map(type, integers)} - {int}:  # test all types at once, which is faster: this method is called often
            return tuple(self.integer(name) for name in names)
        return tuple(integers)

    def text(self, name: str) -> str:
        """Return the value of a text parameter. Raises TypeError for an integer, KeyError for an unknown name."""
        value = self._values[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a string")
        return value
