"""Constants of Bayesian optimisation."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models import gaussian_process

_MODEL = gaussian_process.GaussianProcessSettings(starts=1)
_GUIDED = gaussian_process.GaussianProcessSettings(starts=1, offset=1.0)


@dataclass(frozen=True)
class GuessTrust:
    """Constants that control how much the search relies on estimated times.

    Attributes:
        guessed: Number of random schedules whose times are estimated. Descents start from the best of them.
        patience: Trials without improvement after which the estimates are down-weighted.
        progress: Fraction by which the best time must decrease to count as an improvement.
        margin: Margin that the expected improvement adds to the best value, in standard deviations of the observed
            values.
    """

    guessed: int = 512
    patience: int = 5
    progress: float = 0.005
    margin: float = 0.3


@dataclass(frozen=True)
class Refits:
    """Conditions for fitting the hyperparameters again, and the maximum number of observations.

    Attributes:
        growth: Hyperparameters are fitted again when the number of results has grown by this factor.
        later: Factor that replaces ``growth`` when there are ``many`` results, because a fit then costs more and
            changes less.
        many: Number of results from which ``later`` applies.
        most: Maximum number of observations of the model: half are the fastest schedules, half the newest.
    """

    growth: float = 1.25
    later: float = 1.5
    many: int = 96
    most: int = 512


@dataclass(frozen=True)
class CandidatePool:
    """Sizes of the pool of schedules for which the acquisition function is evaluated.

    Attributes:
        whole: Size of the largest space that is evaluated completely. For larger spaces, the pool is a changing sample.
        living: Number of schedules in a changing pool.
        elite: Number of fastest schedules (the elite) whose neighbours enter the pool.
        moves: Before each proposal, new schedules replace the worst of the pool: ``moves`` neighbours of one elite
            schedule, ``moves`` mutants of the elite, and ``moves`` random schedules.
        rounds: Number of times that neighbours of the schedule with the largest acquisition value enter the pool.
    """

    whole: int = 24576
    living: int = 2048
    elite: int = 4
    moves: int = 24
    rounds: int = 2


@dataclass(frozen=True)
class Batches:
    """Batches of proposals from one evaluation of a changing pool. Small spaces do not use batches.

    Attributes:
        size: Maximum number of proposals in a batch.
        share: One in every ``share`` proposals is unrestricted. The others reuse compiled modules, if possible.
        near: A compiled module is reused if its best time is at most this multiple of the best time so far.
        margins: Margins of successive unrestricted proposals, used cyclically, as fractions of ``GuessTrust.margin``. A
            small margin favours exploitation of known results.
        swept: Number of fast modules whose remaining schedules are added to the pool at a time.
        promising: A batch is chosen from two groups: this number of schedules with the largest acquisition values, and
            half as many of the best schedules with compiled modules.
    """

    size: int = 16
    share: int = 2
    near: float = 1.06
    margins: tuple[float, ...] = (1.0, 0.3, 0.1)
    swept: int = 2
    promising: int = 256


@dataclass(frozen=True)
class BayesSettings:
    """Constants of the search.

    Attributes:
        first: Number of initial trials. Initial trials are random; with estimated times, every second one is the
            schedule with the best estimate.
        trust: Reliance on estimated times.
        refits: Conditions for fitting the hyperparameters again.
        candidates: Sizes of the pool of candidates.
        batches: Batches of proposals.
        model: Settings of the Gaussian process if there are no estimated times.
        guided: Settings of the Gaussian processes if there are estimated times.
    """

    first: int = 5
    trust: GuessTrust = GuessTrust()
    refits: Refits = Refits()
    candidates: CandidatePool = CandidatePool()
    batches: Batches = Batches()
    model: gaussian_process.GaussianProcessSettings = _MODEL
    guided: gaussian_process.GaussianProcessSettings = _GUIDED
