"""Probability that a schedule works, learned from failed trials.

Least-squares classification (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 6.5): a
Gaussian process is fitted to the values 1 (the trial worked) and 0 (it failed). Its length scales are independent of
the length scales for times, because the causes of failures (too many threads, too much shared memory) differ from the
causes of slow kernels.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from cost_models import gaussian_process
from cost_models.covariance import Columns, Hyperparameters
from cost_models.gaussian_process import IncrementalPosterior, Scale
from search_spaces.arrays import FloatArray

_MODEL = gaussian_process.GaussianProcessSettings(starts=1, noise=(math.log(1e-2), 1.0))
# standard deviation of the threshold between failing and working; the mean of the threshold is one half
_SOFTNESS = 0.15


def hyperparameters(columns: Columns, worked: FloatArray, begin: Hyperparameters | None = None) -> Hyperparameters:
    """Return the most probable hyperparameters for the results ``worked`` [n] (1 or 0) at ``columns`` [d, n].

    ``begin`` are the hyperparameters of an earlier fit, if there is one; see ``gaussian_process.hyperparameters``.
    """
    return gaussian_process.hyperparameters(columns, Scale.of(worked).down(worked), _MODEL, begin)


def probability(posterior: IncrementalPosterior, worked: FloatArray) -> FloatArray:
    """Return the probability that the schedule at each point works.

    ``worked`` [count] has the result of each observation: 1, 0, or NaN for a pending trial.
    """
    scale = Scale.of(worked[~np.isnan(worked)])
    predicted = posterior.predict(posterior.impute_pending(scale.down(worked)))
    mean = predicted.mean * scale.deviation + scale.mean
    probabilities: FloatArray = scipy.special.ndtr(
        (mean - 0.5) / np.hypot(predicted.deviation * scale.deviation, _SOFTNESS)
    )
    return probabilities
