"""What Bayesian optimisation is tuned by, each with what it decides."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models import gaussian_process

_MODEL = gaussian_process.Settings(starts=1)
_GUIDED = gaussian_process.Settings(starts=1, offset=1.0)


@dataclass(frozen=True)
class GuessTrust:
    """How far the guess of a prior is followed."""

    guessed: int = 512  # random schedules from whose best guesses descents start
    patience: int = 5  # trials without progress, behind which the guess is followed less
    progress: float = 0.005  # the part by which the best time must shorten to be progress
    margin: float = 0.3  # of expected improvement, in standard deviations of the values so far


@dataclass(frozen=True)
class Refits:
    """When hyper-parameters are fitted again, and to what."""

    growth: float = 1.04  # with so many times the results of the last time,
    later: float = 1.15  # and with so many times once there are
    many: int = 96  # results: then a fit costs more and changes less
    most: int = 512  # observations of the model: the fastest half of them, and the newest others


@dataclass(frozen=True)
class CandidatePool:
    """Among which schedules the acquisition looks for its maximum."""

    whole: int = 24576  # a space of up to so many schedules is looked at as a whole, else a living pool
    living: int = 2048  # schedules of a living pool
    elite: int = 4  # best schedules; each proposal replaces the worst of the pool by neighbours of one of them,
    moves: int = 24  # so many, as many mutants of the elite and as many random ones,
    rounds: int = 2  # and then in so many steps by the neighbours of its own maximum


@dataclass(frozen=True)
class Settings:
    """What the search is tuned by. ``model`` is that of a search without a prior that guesses, ``guided`` with it."""

    first: int = 5  # random trials; of a prior that guesses, every other one has the best guess
    trust: GuessTrust = GuessTrust()
    refits: Refits = Refits()
    candidates: CandidatePool = CandidatePool()
    model: gaussian_process.Settings = _MODEL
    guided: gaussian_process.Settings = _GUIDED
