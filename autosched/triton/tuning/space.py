"""Search space of a Triton function: values of constants and launch options, or a list of configurations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.triton.tuning.function import DEFAULT_OPTIONS, LAUNCH_OPTIONS, TritonFunction
from autosched.user_kernels.expressions import Expression, ExpressionError, from_function, parse, suggestion
from search_spaces.arrays import BoolArray
from search_spaces.hardware.devices import Device
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

RuleText = str | tuple[str, str] | Callable[[dict[str, Any]], Any]
_TILE = re.compile(r"BLOCK|TILE|^B[MNKHDTVQ]?$", re.IGNORECASE)
_GROUP = re.compile(r"GROUP", re.IGNORECASE)
_TILES, _GROUPS = (16, 32, 64, 128, 256), (1, 2, 4, 8)
_EMPTY = inspect.Parameter.empty
_OPTIONS: Mapping[str, tuple[int, ...]] = {"num_warps": (2, 4, 8), "num_stages": (1, 2, 3, 4, 5)}


class SpaceError(ValueError):
    """An invalid space. The message is one line."""


@dataclass(frozen=True, eq=False)
class Domain:
    """Values of one parameter: Python values, and the corresponding values in a schedule."""

    name: str
    values: tuple[Any, ...]
    default: Any

    @property
    def parameter(self) -> Parameter:
        """The parameter of the space."""
        ordered = all(isinstance(v, int) for v in self.stored) and list(self.stored) == sorted(self.stored)
        kind = "ordinal" if ordered else "categorical"
        return Parameter(self.name, self.stored, kind=kind, chosen_default=self.store(self.default))  # type: ignore[arg-type]

    @property
    def stored(self) -> tuple[Value, ...]:
        """Return whole numbers unchanged, and other values as printed text."""
        if all(isinstance(v, int) and not isinstance(v, bool) for v in self.values):
            return self.values
        return tuple(str(v) for v in self.values)

    def store(self, value: Any) -> Value:
        """Convert a Python value to the value stored in a schedule."""
        return self.stored[_index(self.values, value)]

    def load(self, value: Value) -> Any:
        """Convert a value stored in a schedule to the Python value."""
        return self.values[self.stored.index(value)]


def _index(values: Sequence[Any], value: Any) -> int:
    return next(k for k, v in enumerate(values) if type(v) is type(value) and v == value)


@dataclass(frozen=True, eq=False)
class TritonSpace:
    """Domains and rules of a function's configurations, and the function's list of configurations, if it has one.

    ``hooks`` has each listed configuration's ``pre_hook``.
    """

    name: str
    domains: tuple[Domain, ...]
    rules: tuple[RuleText, ...] = ()
    listed: frozenset[tuple[Value, ...]] | None = None
    hooks: Mapping[tuple[Value, ...], Callable[[Any], Any]] | None = None
    order: tuple[tuple[Value, ...], ...] = ()

    def space(self, constants: Mapping[str, int], device: Device) -> Space:
        """Return the search space.

        Raises SpaceError for an invalid rule. Rules may use the integers in ``constants``.
        """
        constraints = [
            *self._launch_rules(device),
            *(self._rule(k, rule, constants) for k, rule in enumerate(self.rules)),
        ]
        if self.listed is not None and len(self.domains) > 0:
            constraints.append(self._listed_rule())
        return Space(self.name, [d.parameter for d in self.domains], (), constraints)

    def values(self, schedule: Schedule) -> dict[str, Any]:
        """Return the configuration of a schedule as Triton's constants and launch options."""
        values = {d.name: d.load(schedule[d.name]) for d in self.domains}
        return {n: v for n, v in values.items() if not (v is None and n in LAUNCH_OPTIONS)}

    def hook(self, schedule: Schedule) -> Callable[[Any], Any] | None:
        """Return the ``pre_hook`` of the listed configuration, if it has one."""
        return (self.hooks or {}).get(tuple(value for _, value in schedule.items))

    def defaults(self) -> list[Schedule]:
        """Return the listed configurations in order; without a list, one configuration with the domains' defaults."""
        names = [d.name for d in self.domains]
        if self.order:
            return [Schedule(self.name, tuple(zip(names, row, strict=True))) for row in self.order]
        return [Schedule(self.name, tuple((d.name, d.store(d.default)) for d in self.domains))]

    def _launch_rules(self, device: Device) -> list[Rule]:
        names = {d.name for d in self.domains}
        most = device.max_threads_per_block // device.warp_size
        rules = []
        if "num_warps" in names:
            reason = f"num_warps must be a power of two from 1 to {most} on {device.name}, not {{num_warps}}"
            rules.append(
                Rule("num_warps", lambda num_warps: (num_warps >= 1) & (num_warps <= most) & _powers(num_warps), reason)
            )
        if "num_ctas" in names and not device.has("clusters"):
            reason = f"{device.name} does not support clusters: num_ctas must be 1"
            rules.append(Rule("num_ctas", lambda num_ctas: num_ctas == 1, reason))
        return rules

    def _listed_rule(self) -> Rule:
        listed = self.listed or frozenset()
        names = {d.name: d.name for d in self.domains}

        def holds(**columns: Any) -> BoolArray:
            rows = zip(*(columns[name].tolist() for name in names), strict=True)
            return np.array([row in listed for row in rows], dtype=np.bool_)

        return Rule("listed", holds, lambda **_: "the configuration is not in the kernel's list", names=names)

    def _rule(self, number: int, rule: RuleText, constants: Mapping[str, int]) -> Rule:
        text, reason = rule if isinstance(rule, tuple) else (rule, "")
        types = {d.name: "int" if isinstance(d.stored[0], int) else "text" for d in self.domains}
        types |= {name: "int" for name in constants if name not in types}
        try:
            expression: Expression = (
                from_function(text, f"rule {number + 1}", "bool", types) if callable(text) else parse(text, types)  # type: ignore[arg-type]
            )
        except ExpressionError as error:
            raise SpaceError(f"the rule {text!r} of {self.name}: {error}") from error
        names = {name: name for name in expression.names if name not in constants}
        if not names:
            raise SpaceError(f"the rule {text!r} of {self.name} uses no parameter: {suggestion('', types)}")
        shown = expression.text if not callable(text) else getattr(text, "__name__", f"rule {number + 1}")

        def why_not(**values: Value) -> str:
            return f"{reason or f'{shown} does not hold'} ({', '.join(f'{n} = {v}' for n, v in values.items())})"

        return Rule(shown, lambda **c: expression.holds(c, constants), why_not, names=names)


def space_of(
    function: TritonFunction,
    fixed: Collection[str],
    values_by_name: Mapping[str, Sequence[Any]] | None = None,
    rules: Sequence[RuleText] = (),
    default: Mapping[str, Any] | None = None,
) -> TritonSpace:
    """Return the space of a function for calls that pass arguments with certain names.

    Args:
        function: The kernel.
        fixed: Names of the passed arguments.
        values_by_name: Values of each parameter that may vary, which is a ``tl.constexpr`` of the function or a launch
            option. None: use the function's own list of configurations. Without such a list, constants whose names look
            like tile or group sizes get powers of two.
        rules: Conditions on the parameters.
        default: Values of the default configuration; None for the first value of each parameter.

    Returns:
        The space.

    Raises:
        SpaceError: A parameter is invalid. The message is one line that names the parameter.
    """
    name = f"triton:{function.name}"
    if values_by_name is None and function.configs:
        if default:
            raise SpaceError(
                f"{function.name} has a list of configurations, of which the first is the default: omit `default`"
            )
        return _of_configs(name, function, rules)
    domains = dict(values_by_name or {})
    for parameter in domains:
        if parameter not in function.constexprs and parameter not in LAUNCH_OPTIONS:
            known = suggestion(parameter, [*function.constexprs, *LAUNCH_OPTIONS])
            raise SpaceError(
                f"{parameter} is neither a tl.constexpr parameter of {function.name} nor a launch option: {known}"
            )
        if parameter in fixed:
            raise SpaceError(
                f"{parameter} of {function.name} has a list of values to try, and is also passed as an argument: "
                "omit one of them"
            )
    missing = [n for n in function.constexprs if n not in fixed and n not in domains and n not in function.computed]
    for parameter in missing:
        if function.constexprs[parameter] is not _EMPTY:
            continue
        values = _TILES if _TILE.search(parameter) else _GROUPS if _GROUP.search(parameter) else ()
        if not values or values_by_name is not None:
            raise SpaceError(
                f"{parameter} of {function.name} has no value: pass it as an argument, or give values to try"
            )
        domains[parameter] = values
    if values_by_name is None:
        domains |= {option: values for option, values in _OPTIONS.items() if option not in fixed}
    if not domains:
        raise SpaceError(
            f"{function.name} has no parameter to vary: give values to try for a parameter, such as num_warps"
        )
    return TritonSpace(
        name, tuple(_domain(function, n, values, default or {}) for n, values in domains.items()), tuple(rules)
    )


def _domain(function: TritonFunction, name: str, values: Sequence[Any], default: Mapping[str, Any]) -> Domain:
    values = tuple(values)
    if not values:
        raise SpaceError(f"{name} of {function.name} has no values to try: give at least one")
    usual = default.get(name, DEFAULT_OPTIONS.get(name, function.constexprs.get(name, _EMPTY)))
    if name in default and usual not in values:
        raise SpaceError(f"the default {name}={usual!r} of {function.name} is not among the values to try")
    domain = Domain(name, values, usual if usual in values else values[0])
    if len(set(domain.stored)) < len(values):
        raise SpaceError(f"{name} of {function.name} has a duplicate value: give each value once")
    return domain


def _of_configs(name: str, function: TritonFunction, rules: Sequence[RuleText]) -> TritonSpace:
    configs = [{**DEFAULT_OPTIONS, **c.all_kwargs()} for c in function.configs]
    names = list(dict.fromkeys(n for config in configs for n in config))
    for config in configs:
        if missing := [n for n in names if n not in config and n in function.constexprs]:
            config |= {n: function.constexprs[n] for n in missing}
        config |= {n: None for n in names if n not in config}
    values_by_name = {n: list({repr(c[n]): c[n] for c in configs}.values()) for n in names}
    for values in values_by_name.values():
        if all(isinstance(v, int) for v in values):
            values.sort()
    domains = tuple(Domain(n, tuple(values), configs[0][n]) for n, values in values_by_name.items())
    rows = [tuple(d.store(config[d.name]) for d in domains) for config in configs]
    hooks = {row: c.pre_hook for row, c in zip(rows, function.configs, strict=True) if c.pre_hook is not None}
    return TritonSpace(name, domains, tuple(rules), frozenset(rows), hooks, tuple(dict.fromkeys(rows)))


def _powers(values: Any) -> Any:
    return (values & (values - 1)) == 0
