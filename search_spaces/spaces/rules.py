"""Attributes and rules. Together with parameters, they define the space of a template.

Attributes and rules are functions of columns. The names of the functions' arguments select the columns:

    Attribute("threads", lambda warps_m, warps_n: warps_m * warps_n * 32, "threads of a block")
    Rule("stages", lambda stages, tiles: stages <= tiles, "{stages} stages are more than the {tiles} tiles")

An argument receives the column (a parameter or attribute of the space) of the same name, unless ``names`` maps the
argument to another column. Arguments with a default are not columns, and ``**`` collects all columns in ``names``.
Integer columns are passed as int64 arrays, text columns as TextColumn. ``each`` converts functions of single values.

A space calls the functions with any combination of values of their inputs, including combinations that another rule
rejects. So the functions must not raise exceptions or divide by zero.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from inspect import Parameter
from string import Formatter
from types import CodeType, FunctionType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Value

_Parameters = tuple[tuple[str, Any, bool], ...]  # (name, kind, True if there is a default) of a function's argument
_OF_CODE: dict[tuple[CodeType, int, frozenset[str]], _Parameters] = {}


@dataclass(frozen=True)
class _OfColumns:
    """A named function of columns. Raises ValueError if the function has no columns, or the same column twice."""

    name: str
    function: Callable[..., Any]
    names: Mapping[str, str] = field(default_factory=dict, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        kind = type(self).__name__.lower()
        if not self.name:
            raise ValueError(f"a {kind} needs a name")
        if not self.needs:
            raise ValueError(f"{kind} {self.name} needs at least one column as an argument")
        if len(set(self.needs)) != len(self.needs):
            raise ValueError(f"{kind} {self.name} takes a column twice")

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Column of each argument of the function, by the argument's name."""
        return _inputs(self.function, self.names)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Names of the columns that the function receives."""
        return tuple(self.inputs.values())

    @cached_property
    def _by_name(self) -> bool:
        return any(kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD) for _, kind, _ in _parameters(self.function))

    def _evaluated(self, columns: Columns, kinds: str, expected: str) -> npt.NDArray[Any]:
        if not len(columns):
            return np.zeros(0, dtype=np.int64 if "i" in kinds else np.bool_)
        arguments = {name: columns.column(column) for name, column in self.inputs.items()}
        array = np.asarray(self.function(**arguments) if self._by_name else self.function(*arguments.values()))
        if array.shape != (len(columns),) or array.dtype.kind not in kinds:
            raise ValueError(
                f"{type(self).__name__.lower()} {self.name} returned {array.dtype} {array.shape}: "
                f"return {len(columns)} {expected}, one for each row"
            )
        return array


@dataclass(frozen=True)
class Attribute(_OfColumns):
    """A derived int64 column. ``function`` returns one integer per row, with |value| < 2**62."""

    doc: str = ""

    def evaluate(self, columns: Columns) -> IntArray:
        """Return the column. Raises ValueError if the function returns a wrong shape or type."""
        return self._evaluated(columns, "iub", "integers").astype(np.int64, copy=False)


@dataclass(frozen=True)
class Rule(_OfColumns):
    """A condition that legal configurations satisfy. ``function`` returns one bool per row, True if it is legal.

    ``reason`` is the message for a rejected configuration: a format string with arguments of ``function`` as fields, or
    a function of the values of such arguments. Raises ValueError if the reason uses other names.
    """

    reason: str | Callable[..., str | None]
    doc: str = ""
    requested: bool = False  # True for a rule that a user requests, which the space's fingerprint does not include

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self._mentioned:
            if name not in self.inputs:
                raise ValueError(
                    f"the reason of rule {self.name} has the unknown name {name!r}: use arguments of the rule, "
                    f"{', '.join(self.inputs)}"
                )

    @classmethod
    def refusing(
        cls, name: str, why_not: Callable[..., str | None], doc: str = "", *, names: Mapping[str, str] | None = None
    ) -> Self:
        """Return a rule that rejects the values for which ``why_not`` returns a reason.

        Args:
            name: Name of the rule in messages.
            why_not: Function of one schedule's values that returns the reason as a sentence, or None if the values are
                legal.
            doc: Purpose of the rule.
            names: Maps arguments of ``why_not`` to columns, for arguments that do not have the name of their column.
        """

        @wraps(why_not)
        def allows(*values: Value, **named: Value) -> bool:
            return why_not(*values, **named) is None

        return cls(name, each(allows), why_not, doc, names=names or {})

    @cached_property
    def _mentioned(self) -> tuple[str, ...]:
        if callable(self.reason):
            return tuple(_inputs(self.reason, self.inputs))
        return tuple(name for _, name, _, _ in Formatter().parse(self.reason) if name is not None)

    def evaluate(self, columns: Columns) -> BoolArray:
        """Return a mask of legal rows. Raises ValueError if the function returns a wrong shape or type."""
        return self._evaluated(columns, "b", "bools")

    def why_not(self, values: Mapping[str, Value]) -> str:
        """Return the reason why a configuration with these values of ``needs`` is rejected."""
        mentioned = {name: values[self.inputs[name]] for name in self._mentioned}
        return (self.reason(**mentioned) or "") if callable(self.reason) else self.reason.format_map(mentioned)


class Violation(NamedTuple):
    """A rule that a configuration violates, and the reason."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Rejection:
    """Number of configurations that ``rule`` rejects on its own, out of ``raw``, the size of the product of domains."""

    rule: str
    count: int
    raw: int


def _inputs(function: Callable[..., Any], names: Mapping[str, str]) -> dict[str, str]:
    inputs: dict[str, str] = {}
    for name, kind, optional in _parameters(function):
        if kind is Parameter.VAR_POSITIONAL:
            raise ValueError(f"*{name} is not supported in a function of columns: use one argument for each column")
        if kind is Parameter.VAR_KEYWORD:
            inputs |= names
        elif not optional:
            inputs[name] = names.get(name, name)
    return inputs


def _parameters(function: Callable[..., Any]) -> _Parameters:
    """Return a function's arguments as ``inspect.signature`` does, cached by code object.

    Caching saves time, because the rules of a template are created again for each problem.
    """
    inner = inspect.unwrap(function, stop=lambda f: hasattr(f, "__signature__"))
    if not isinstance(inner, FunctionType) or hasattr(inner, "__signature__"):
        return _read(function)
    key = (inner.__code__, len(inner.__defaults__ or ()), frozenset(inner.__kwdefaults__ or ()))
    if key not in _OF_CODE:
        _OF_CODE[key] = _read(inner)
    return _OF_CODE[key]


def _read(function: Callable[..., Any]) -> _Parameters:
    parameters = inspect.signature(function).parameters.values()
    return tuple((p.name, p.kind, p.default is not p.empty) for p in parameters)
