"""Constants of Bayesian optimisation."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models import gaussian_process

_MODEL = gaussian_process.GaussianProcessSettings(starts=1)
_GUIDED = gaussian_process.GaussianProcessSettings(starts=1, offset=1.0)


@dataclass(frozen=True)
class GuessTrust:
    """Trust in estimated times.

    Attributes:
        guessed: Number of random schedules. Descents start from those with the best estimates.
        patience: Trials without improvement after which the estimates are down-weighted.
        progress: Fraction by which the best time must decrease to count as an improvement.
        margin: Margin of the expected improvement, in standard deviations of the observed values.
    """

    guessed: int = 512
    patience: int = 5
    progress: float = 0.005
    margin: float = 0.3


@dataclass(frozen=True)
class Refits:
    """Conditions for fitting hyperparameters again, and the number of observations to fit.

    Attributes:
        growth: Refit when the number of results has grown by this factor.
        later: The same factor from ``many`` results on, when a fit costs more and changes less.
        many: Number of results from which ``later`` applies.
        most: Maximum number of observations of the model, half of which are the fastest, the others the newest.
    """

    growth: float = 1.25
    later: float = 1.5
    many: int = 96
    most: int = 512


@dataclass(frozen=True)
class CandidatePool:
    """Schedules among which the acquisition function is maximised.

    Attributes:
        whole: Size of the largest space that is evaluated completely. Larger ones are sampled by a changing pool.
        living: Number of schedules in a changing pool.
        elite: Number of best schedules whose neighbours enter the pool.
        moves: Number of schedules of each kind that replace the worst of the pool before each proposal: neighbours of
            one of the elite, mutants of the elite, and random ones.
        rounds: Number of steps in which neighbours of the maximum enter the pool.
    """

    whole: int = 24576
    living: int = 2048
    elite: int = 4
    moves: int = 24
    rounds: int = 2


@dataclass(frozen=True)
class Batches:
    """Batches of proposals from one evaluation of a changing pool. They are not used for small spaces.

    Attributes:
        size: Number of proposals in a batch, if as many trials may be in flight.
        share: One in ``share`` proposals is unrestricted. The others reuse compiled modules, while any remain.
        near: Ratio to the best time up to which further schedules of a compiled module are tried.
        margins: Margins of the expected improvement of consecutive unrestricted proposals, cyclically, as fractions of
            ``GuessTrust.margin``. With a small margin, a proposal exploits known results.
        swept: Number of modules whose schedules are added to the pool at a time.
        promising: Number of schedules of the pool with the largest acquisition, among which a batch is chosen, in
            addition to half as many of compiled modules.
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
        first: Number of initial trials. They are random; with estimated times, every second one has the best estimate.
        trust: Trust in estimated times.
        refits: Schedule of hyperparameter refits.
        candidates: Schedules among which the acquisition function is maximised.
        batches: Batches of proposals.
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
