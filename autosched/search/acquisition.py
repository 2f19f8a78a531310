"""How much a trial is worth before it is made."""

from __future__ import annotations

import math

import numpy as np
import scipy

from cost_models.surrogate import Prediction
from search_spaces.arrays import FloatArray


def expected_improvement(predicted: Prediction, best: float) -> FloatArray:
    """By how much each value may be expected to exceed ``best``, [n] (Jones, Schonlau and Welch, 1998)."""
    deviation = np.maximum(predicted.deviation, 1e-12)
    ahead = (predicted.mean - best) / deviation
    density = np.exp(-0.5 * ahead * ahead) / math.sqrt(2 * math.pi)
    expected: FloatArray = deviation * (ahead * scipy.special.ndtr(ahead) + density)
    return expected
