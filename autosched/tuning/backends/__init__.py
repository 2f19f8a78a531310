"""Backends that time candidates: on a GPU, on a cluster, from a recording, or by a model.

Start at ``choosing.py``. ``gpus.py`` finds local GPUs; ``cluster.py``, ``replaying.py`` and ``estimators.py`` are the
other backends. This package must not import samplers or the loop of trials.
"""

from autosched.tuning.backends.backend import Backend, BackendError
from autosched.tuning.backends.choosing import choose
from autosched.tuning.backends.estimators import TRAINED, AnalyticEstimator, TrainedEstimator, is_counted
from autosched.tuning.backends.options import BACKENDS, BackendOptions, Gpus

__all__ = [
    "BACKENDS",
    "TRAINED",
    "AnalyticEstimator",
    "Backend",
    "BackendError",
    "BackendOptions",
    "Gpus",
    "TrainedEstimator",
    "choose",
    "is_counted",
]
