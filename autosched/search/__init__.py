"""Samplers: each proposes legal schedules of a space, and learns from what came of them."""

from __future__ import annotations

from autosched.search.base import Prior, Sampler
from search_spaces.spaces.search_space import SearchSpace

SAMPLERS = ("evolution", "random", "tpe")


def sampler(name: str, space: SearchSpace, *, seed: int, prior: Prior | None = None, threads: int = 1) -> Sampler:
    """A new sampler by its name. ``prior`` helps those that use one; ``threads`` are for training a model.

    Raises ValueError for a name that is not in SAMPLERS, or a seed that is not an integer from 0 up.
    """
    check(name, seed)
    if name == "random":
        from autosched.search.random import RandomSampler

        return RandomSampler(space, seed)
    if name == "tpe":
        from autosched.search.tpe import OptunaSampler  # imports optuna, which takes a second

        return OptunaSampler(space, seed)
    from autosched.search.evolution import EvolutionSampler, boosted_trees

    return EvolutionSampler(space, seed, fit=boosted_trees(seed, threads), prior=prior)


def check(name: str, seed: int) -> None:
    """Raises ValueError, in one line, for what ``sampler`` would refuse."""
    if name not in SAMPLERS:
        raise ValueError(f"unknown sampler {name!r}: use one of {', '.join(SAMPLERS)}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise ValueError(f"the seed must be an integer from 0 to 2^31 - 1, not {seed!r}")


__all__ = ["SAMPLERS", "Prior", "Sampler", "check", "sampler"]
