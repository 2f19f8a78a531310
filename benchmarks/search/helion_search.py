"""Run Helion's searches on a recorded space, through the documented interfaces for kernels that are not in Helion.

The recording is converted to a Helion config space with one tunable per parameter: a power of two, an index into the
values, or an enumeration for text. Helion's own settings (warps, stages, ...) are constant. A combination that is not
recorded is an ``InvalidConfig`` and does not count as an evaluation. Random configurations are sampled from the
recorded ones. If a search ends before the budget is used, another search starts with the next seed. Configurations that
were already evaluated do not count again.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import helion
import numpy as np
from helion._compiler.backend import TritonBackend
from helion.autotuner import (
    ConfigSpec,
    EnumFragment,
    IntegerFragment,
    LFBOTreeSearch,
    PatternSearch,
    PowerOfTwoFragment,
)
from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult
from helion.autotuner.config_generation import ConfigGeneration
from helion.autotuner.effort_profile import get_effort_profile
from helion.exc import InvalidConfig, NoConfigFound

from measurements.tables.table import Table
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.schedule import Schedule

SEARCHES = {
    "helion_lfbo": (LFBOTreeSearch, "full"),
    "helion_lfbo_quick": (LFBOTreeSearch, "quick"),
    "helion_pattern": (PatternSearch, "full"),
}
RESTARTS = 20  # maximum number of consecutive searches that visit no new configuration


class BudgetSpent(Exception):
    """The search has used its budget of measured configurations."""


class OptimumFound(Exception):
    """The search has found the recorded optimum."""


class Tunables:
    """Convert parameters of a recording to Helion's fragments, and Helion's configurations to schedules."""

    def __init__(self, table: Table) -> None:
        (self._parameters,) = table.parameters.values()
        self._kernel = table.kernel
        self.recorded = list(table.measurements)
        self.by_values = {self._values(schedule): schedule for schedule in self.recorded}
        # Helion starts from the defaults of the fragments, so these must be a legal configuration
        legal = self.config(self.recorded[0])
        self.fragments = {_name(p): _fragment(p, legal[_name(p)]) for p in self._parameters}

    def _values(self, schedule: Schedule) -> tuple[Any, ...]:
        return tuple(_value(p, schedule[p.name]) for p in self._parameters)

    def schedule(self, config: Mapping[str, Any]) -> Schedule | None:
        """Return the recorded schedule of a configuration; None if the configuration is not recorded."""
        return self.by_values.get(tuple(config.get(_name(p)) for p in self._parameters))

    def config(self, schedule: Schedule) -> dict[str, Any]:
        """Return the values of the tunables for a schedule."""
        return {_name(p): value for p, value in zip(self._parameters, self._values(schedule), strict=True)}


def _name(parameter: Parameter) -> str:
    return f"tuned_{parameter.name}"


def _powers(parameter: Parameter) -> bool:
    values = [value for value in parameter.values if isinstance(value, int) and value > 0]
    if len(values) < max(2, len(parameter.values)) or values[0] & (values[0] - 1):
        return False
    return all(value == values[0] << i for i, value in enumerate(values))


def _fragment(parameter: Parameter, default: Any) -> Any:
    values = parameter.values
    if parameter.is_text:
        return EnumFragment((default, *(value for value in values if value != default)))
    if _powers(parameter):
        return PowerOfTwoFragment(values[0], values[-1], default)
    return IntegerFragment(0, len(values) - 1, default)


def _value(parameter: Parameter, value: Value) -> Any:
    return value if parameter.is_text or _powers(parameter) else parameter.code(value)


class RecordedGeneration(ConfigGeneration):  # type: ignore[misc]
    """Generates random configurations by sampling recorded ones."""

    def random_flat(self) -> Any:
        base = super().default_flat()
        tunables = self.config_spec.tunables
        chosen = tunables.config(random.choice(tunables.recorded))
        for name, value in chosen.items():
            ((position,), _) = self._key_to_flat_indices[name]
            base[position] = value
        return base

    def default_flat(self) -> Any:
        return self.random_flat()


class RecordedSpec(ConfigSpec):  # type: ignore[misc]
    """Helion's config space for a recording. Configurations that are not recorded are invalid."""

    def __init__(self, tunables: Tunables) -> None:
        super().__init__(
            backend=TritonBackend(), user_defined_tunables=tunables.fragments, target_device_capability=None, num_sm=1
        )
        self.tunables = tunables

    def normalize(self, config: Any, **options: Any) -> None:
        super().normalize(config, **options)
        values = config.config if isinstance(config, helion.Config) else config
        if self.tunables.schedule(values) is None:
            raise InvalidConfig("not recorded")

    def create_config_generation(self, **options: Any) -> ConfigGeneration:
        return RecordedGeneration(self, **options)


class RecordedKernel:
    """Replacement for a Helion kernel, with only the attributes that a search uses. Nothing is compiled."""

    configs: Sequence[Any] = ()

    class Env:
        device = None
        process_group_name = None

    env = Env()

    def __init__(self, spec: RecordedSpec, effort: Any, seed: int) -> None:
        self.config_spec = spec
        self.settings = helion.Settings(
            autotune_effort=effort,
            autotune_random_seed=seed,
            autotune_precompile=None,
            autotune_log_level=0,
            autotune_progress_bar=False,
            autotune_config_overrides=_fixed(spec),
        )

    def supports_subprocess_benchmark(self) -> bool:
        return False

    def is_cacheable(self) -> bool:
        return False

    def extra_cache_key(self) -> str:
        return ""

    def format_kernel_decorator(self, config: Any, settings: Any) -> str:
        return ""

    def get_cached_path(self, config: Any = None) -> None:
        return None

    def maybe_log_repro(self, *arguments: Any) -> None:
        return None


def _fixed(spec: RecordedSpec) -> dict[str, Any]:
    """Return Helion's own settings with their default values."""
    generation = ConfigGeneration(spec)
    names = {name: where for name, (where, _) in generation._key_to_flat_indices.items() if where}
    flat = generation._fragment_default_flat()
    return {name: flat[where[0]] for name, where in names.items() if name not in spec.tunables.fragments}


class RecordedProvider(BenchmarkProvider):  # type: ignore[misc]
    """Benchmark provider that returns recorded times. ``args`` holds the table, the list of visits, and the budget."""

    mutated_arg_indices = ()

    def __init__(self, *, config_spec: Any, args: Any, **_: Any) -> None:
        self._tunables, (self._table, self._visited, self._budget) = config_spec.tunables, args

    def benchmark(
        self, configs: list[Any], *, desc: str = "", raise_if_no_viable_config: bool = True
    ) -> list[BenchmarkResult]:
        results = []
        for config in configs:
            schedule = self._tunables.schedule(config.config)
            if schedule not in self._visited:
                if len(self._visited) == self._budget:
                    raise BudgetSpent
                self._visited[schedule] = None
            timing = self._table.measurements[schedule].timing
            if timing is not None and timing.median <= self._table.best_seconds:
                raise OptimumFound
            perf, status = (float("inf"), "error") if timing is None else (1e3 * timing.median, "ok")
            results.append(BenchmarkResult(config, _no_kernel, perf, status, None))
        return results

    def setup(self) -> None:
        pass

    def cleanup(self) -> None:
        pass


def _no_kernel(*arguments: Any) -> None:
    """Stand in for a compiled kernel, because searches never call the kernel."""


def visits(table: Table, method: str, seed: int, budget: int) -> Iterator[Schedule]:
    """Yield each schedule when a Helion search first measures it, until the budget is used."""
    its, effort = SEARCHES[method]
    visited: dict[Schedule, None] = {}
    spec = RecordedSpec(Tunables(table))
    profile = get_effort_profile(effort)
    idle = 0

    class Recorded(its):  # type: ignore[misc, valid-type]
        def rebenchmark(self, members: Any, **options: Any) -> None:
            """Do nothing, because recorded times do not vary."""

    with open(os.devnull, "w") as quiet, contextlib.redirect_stderr(quiet):
        for restart in range(budget):
            before = len(visited)
            kernel = RecordedKernel(spec, effort, seed * budget + restart)
            np.random.seed(seed * budget + restart)
            options = its.get_kwargs_from_profile(profile, kernel.settings)
            # disabled, because there are no earlier runs from which to start
            options.pop("initial_population_strategy", None)
            search = Recorded(kernel, (table, visited, budget), **options)
            search.final_selection = None  # disabled, because this step would time the finalists on a GPU
            search._benchmark_provider_cls = RecordedProvider
            try:
                search.autotune(skip_cache=True)
            except (BudgetSpent, OptimumFound):
                break
            except NoConfigFound:
                pass
            idle = idle + 1 if len(visited) == before else 0
            if idle == RESTARTS or len(visited) == budget:
                break
    yield from visited
