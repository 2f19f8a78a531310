"""The constants of Bayesian optimisation."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models import gaussian_process

_MODEL = gaussian_process.GaussianProcessSettings(starts=1)
_GUIDED = gaussian_process.GaussianProcessSettings(starts=1, offset=1.0)


@dataclass(frozen=True)
class GuessTrust:
    """Trust in estimated times.

    Attributes:
        guessed: Number of random schedules from whose best estimates descents start.
        patience: Trials without improvement after which the estimates are down-weighted.
        progress: Fraction by which the best time must shorten to count as an improvement.
        margin: Margin of the expected improvement, in standard deviations of the observed values.
    """

    guessed: int = 512
    patience: int = 5
    progress: float = 0.005
    margin: float = 0.3


@dataclass(frozen=True)
class Refits:
    """When hyperparameters are fitted again, and to how many observations.

    Attributes:
        growth: Refit when the number of results has grown by this factor.
        later: The factor from ``many`` results on, where a fit costs more and changes less.
        many: Number of results from which ``later`` applies.
        most: Maximum number of observations of the model: the fastest half of them, and the newest others.
    """

    growth: float = 1.25
    later: float = 1.5
    many: int = 96
    most: int = 512


@dataclass(frozen=True)
class CandidatePool:
    """Schedules among which the acquisition function is maximised.

    Attributes:
        whole: Largest space that is searched as a whole; of a larger one, a living pool is.
        living: Number of schedules in a living pool.
        elite: Number of best schedules whose neighbours enter the pool.
        moves: Number of schedules that replace the worst of the pool before each proposal: so many neighbours of one of
            the elite, so many mutants of the elite, and so many random ones.
        rounds: Number of steps in which neighbours of the maximum enter the pool.
    """

    whole: int = 24576
    living: int = 2048
    elite: int = 4
    moves: int = 24
    rounds: int = 2


@dataclass(frozen=True)
class Batches:
    """Proposals that share one look at the pool. A space that is searched as a whole has none.

    Attributes:
        size: Number of proposals that are worth it, if so many trials may be in flight.
        share: One of so many proposals is free. The others are schedules of compiled modules, as long as there are any.
        near: Times the best time, within which further schedules of a compiled module are tried.
        margins: Margins of the expected improvement of the first free proposal, of the second and so on, in turns, as
            parts of ``GuessTrust.margin``: of many proposals, some may exploit what is known.
        swept: Number of modules whose schedules enter the pool at a time.
    """

    size: int = 16
    share: int = 2
    near: float = 1.06
    margins: tuple[float, ...] = (1.0, 0.3, 0.1)
    swept: int = 2


@dataclass(frozen=True)
class BayesSettings:
    """Constants of the search.

    Attributes:
        first: Number of initial trials. They are random; with estimated times, every other one has the best estimate.
        trust: How far estimated times are followed.
        refits: When hyperparameters are fitted again.
        candidates: Schedules among which the acquisition function is maximised.
        batches: Proposals that share one look at the pool.
        model: Gaussian process without estimated times.
        guided: Gaussian process with estimated times.
    """

    first: int = 5
    trust: GuessTrust = GuessTrust()
    refits: Refits = Refits()
    candidates: CandidatePool = CandidatePool()
    batches: Batches = Batches()
    model: gaussian_process.GaussianProcessSettings = _MODEL
    guided: gaussian_process.GaussianProcessSettings = _GUIDED
