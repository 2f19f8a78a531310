"""Samplers, which propose the next schedules of a search.

Start at ``base.py``, the interface: a sampler proposes legal schedules of a space, and results are reported to it. Each
sampler has a factory ``factory(space, *, seed, estimates, threads)``. This module lists the built-in samplers. Other
packages add samplers by entry points of the group ``autosched.samplers``. The name of an entry point is the name of the
sampler. This package must not import the search that uses it, ``autosched.tuning``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from autosched.samplers.base import Sampler, UnvisitedPool
from cost_models.estimates import Estimates
from search_spaces.installed import entry_points
from search_spaces.spaces.search_space import SearchSpace

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "autosched.samplers"
DEFAULT = "bayes"

Factory = Callable[..., Sampler]


def _bayes(space: SearchSpace, *, seed: int, estimates: Estimates | None, threads: int) -> Sampler:
    from autosched.samplers.bayes.sampler import BayesSampler  # imported here, because importing scipy is slow

    return BayesSampler(space, seed, estimates=estimates)


def _evolution(space: SearchSpace, *, seed: int, estimates: Estimates | None, threads: int) -> Sampler:
    from autosched.samplers.evolution import EvolutionSampler, boosted_trees

    return EvolutionSampler(space, seed, fit=boosted_trees(seed, threads), estimates=estimates)


def _model(space: SearchSpace, *, seed: int, estimates: Estimates | None, threads: int) -> Sampler:
    from autosched.samplers.model import ModelSampler

    return ModelSampler(space, seed, estimates=estimates)


def _random(space: SearchSpace, *, seed: int, estimates: Estimates | None, threads: int) -> Sampler:
    from autosched.samplers.random import RandomSampler

    return RandomSampler(space, seed)


def _tpe(space: SearchSpace, *, seed: int, estimates: Estimates | None, threads: int) -> Sampler:
    from autosched.samplers.tpe import OptunaSampler  # imported here, because importing optuna takes a second

    return OptunaSampler(space, seed)


# the order is random, so that an interrupted search has tried an unbiased sample of all schedules
BRUTE_FORCE = "brute_force"
MODEL = "model"  # proposes schedules in the order of their estimates, regardless of results
_BUILT_IN: dict[str, Factory] = {
    "bayes": _bayes,
    "evolution": _evolution,
    MODEL: _model,
    "random": _random,
    "tpe": _tpe,
    BRUTE_FORCE: _random,
}


@cache
def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS) if point.name not in _BUILT_IN}


def samplers() -> tuple[str, ...]:
    """Return the names of all samplers: first built-in samplers, then samplers in other packages."""
    return (*_BUILT_IN, *sorted(_offered()))


def sampler(
    name: str, space: SearchSpace, *, seed: int, estimates: Estimates | None = None, threads: int = 1
) -> Sampler:
    """Return a new sampler by its name.

    Args:
        name: "bayes", "evolution", "model", "random", "tpe", "brute_force", or the name of another package's sampler.
        space: Space of the schedules to propose.
        seed: Random seed, a non-negative integer. The same seed and the same results give the same proposals.
        estimates: Times that a model estimates before the first trial. Some samplers ignore them. Default: only the
            encoding of ``space``, without times.
        threads: Number of threads that train a model.

    Returns:
        A sampler to which nothing has been reported yet.

    Raises:
        ValueError: The name is unknown, another package's sampler cannot be loaded or is not a Sampler, or the seed is
            not a non-negative integer.
    """
    check(name, seed)
    factory = _BUILT_IN.get(name)
    if factory is None:
        try:
            factory = _offered()[name].load()
        except (Exception, SystemExit) as error:  # third-party code may raise any exception
            raise ValueError(
                f"the sampler {name} cannot be loaded ({error or type(error).__name__}): fix or uninstall its package"
            ) from error
    created = factory(space, seed=seed, estimates=estimates, threads=threads)
    if not isinstance(created, Sampler):
        raise ValueError(
            f"the sampler {name} is not an autosched.samplers.Sampler: its class must inherit from Sampler"
        )
    return created


def check(name: str, seed: int) -> None:
    """Raise ValueError for a name or seed that ``sampler`` would reject. The message is one line."""
    if name not in samplers():
        raise ValueError(f"unknown sampler {name!r}: use one of {', '.join(samplers())}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise ValueError(f"the seed must be an integer from 0 to 2^31 - 1, not {seed!r}")


__all__ = [
    "DEFAULT",
    "ENTRY_POINTS",
    "MODEL",
    "Sampler",
    "UnvisitedPool",
    "check",
    "sampler",
    "samplers",
]
