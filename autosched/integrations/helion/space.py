"""Represent Helion's configurations as a search space of autosched, so that every sampler can be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any

from search_spaces.spaces.parameters import Value, categorical, ordinal
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

_MOST_VALUES = 256  # maximum number of values per parameter; the first values in Helion's order are used


@dataclass(frozen=True, eq=False)
class ConfigSpace:
    """A space with a parameter for each element of Helion's flat configurations.

    ``values`` maps parameter values to Helion's values. Helion repairs combinations that it does not allow, so two
    schedules may become the same configuration.
    """

    space: Space
    generation: Any
    values: tuple[Mapping[Value, Any], ...]

    @classmethod
    def of(cls, bound: Any) -> ConfigSpace:
        """Return the space of a bound kernel, with its ``autotune_config_overrides``."""
        settings, spec = bound.settings, bound.config_spec
        files = settings.autotune_search_acf or None
        generation = spec.create_config_generation(
            overrides=settings.autotune_config_overrides or None,
            advanced_controls_files=files,
            process_group_name=bound.env.process_group_name,
        )
        names = []
        for key, count, is_sequence in spec.flat_key_layout(advanced_controls_files=files):
            names += [f"{key}[{k}]" for k in range(count)] if is_sequence else [key]
        parameters, values = [], []
        for name, fragment in zip(names, generation.flat_spec, strict=True):
            fragment_values = _values_of(fragment)
            numbers = all(type(value) is int for value in fragment_values)
            values_of_space: list[Value] = (
                list(fragment_values) if numbers else [_text(value) for value in fragment_values]
            )
            parameters.append((ordinal if numbers else categorical)(name, values_of_space, default=values_of_space[0]))
            values.append(dict(zip(values_of_space, fragment_values, strict=True)))
        return cls(Space("helion", parameters), generation, tuple(values))

    def config(self, schedule: Schedule) -> Any:
        """Return a schedule's configuration, repaired by Helion. Raises helion.exc.InvalidConfig if that fails."""
        flat = [known[value] for known, (_, value) in zip(self.values, schedule.items, strict=True)]
        return self.generation.unflatten([list(v) if isinstance(v, list) else v for v in flat])

    def schedule(self, config: Any) -> Schedule | None:
        """Return the schedule of a configuration; None if one of its values is outside Helion's search space."""
        flat = self.generation.flatten(config)
        items = []
        for parameter, known, value in zip(self.space.parameters, self.values, flat, strict=True):
            space_value = value if type(value) is int and not parameter.is_text else _text(value)
            if space_value not in known:
                return None
            items.append((parameter.name, space_value))
        return Schedule(self.space.name, tuple(items))


def _values_of(fragment: Any) -> list[Any]:
    """Return the values: integers in ascending order, other values starting with Helion's default."""
    values = fragment.search_values(_MOST_VALUES)
    if values is None and hasattr(fragment, "inner"):  # a list of values, each chosen separately
        each = fragment.inner.search_values(_MOST_VALUES)
        values = [] if each is None else [list(v) for v in islice(product(each, repeat=fragment.length), _MOST_VALUES)]
    elif values is None and isinstance(fragment.default(), list):  # a permutation, such as an order of loops
        values = [list(v) for v in islice(permutations(fragment.default()), _MOST_VALUES)]
    default = fragment.default()
    values = list(values or [])
    if default not in values:
        values.insert(0, default)
    return sorted(values) if all(type(value) is int for value in values) else values


def _text(value: Any) -> str:
    return json.dumps(value)
