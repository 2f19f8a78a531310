"""Operators: how problems of an operator are created from options and from JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Self, get_type_hints

from search_spaces.operators.problem import Problem

# types of options, by their names in annotations
_KINDS: dict[object, type[int] | type[float] | type[str]] = {"int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Option:
    """One command-line option of a problem. It sets ``field`` of the problem, and has ``flags`` such as ("-m",).

    ``default`` is None if the option is required, and "" if the default is derived from other options.
    """

    field: str
    flags: tuple[str, ...]
    type: type[int] | type[float] | type[str]
    help: str
    default: int | float | str | None = None
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Python name of the option, from the last of its flags."""
        return self.flags[-1].lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Operator:
    """Name of an operator, and functions that create its problems.

    ``make`` creates a problem from values for the fields of ``options``. ``from_json`` creates a problem from a result
    of ``to_json()``. Each raises ValueError for invalid values.
    """

    name: str
    summary: str
    options: tuple[Option, ...]
    make: Callable[..., Problem]
    from_json: Callable[[Mapping[str, Any]], Problem]

    @classmethod
    def of(cls, problem: type[Problem]) -> Self:
        """Return the operator of a problem type. Its options are the fields that ``problem.option`` returned.

        Raises ValueError if an option is not an int, float or str.
        """
        options = []
        for field in dataclasses.fields(problem):
            if "help" in field.metadata:
                flag = field.metadata["flag"] or "--" + field.name.replace("_", "-")
                default = None if field.default is MISSING else field.default
                kind = _KINDS.get(field.type) or get_type_hints(problem)[field.name]
                if kind not in (int, float, str):
                    raise ValueError(f"the option {field.name} of {problem.operator} must be an int, a float or a str")
                options.append(
                    Option(field.name, (flag,), kind, field.metadata["help"], default, field.metadata["choices"])
                )
        return cls(problem.operator, problem.summary, tuple(options), problem, problem.from_json)
