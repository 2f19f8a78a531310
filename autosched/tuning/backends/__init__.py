"""What makes the times: a GPU of this machine, a cluster, a recording, or a model? Start at ``choosing.py``.

``gpus.py`` asks what there is; ``cluster.py``, ``replaying.py`` and ``estimates.py`` are the others. Knows nothing of
samplers and trials.
"""

from autosched.tuning.backends.backend import BACKENDS, Backend, BackendError, Gpus
from autosched.tuning.backends.choosing import choose
from autosched.tuning.backends.estimates import TRAINED, Estimate, TrainedEstimate, is_counted

__all__ = [
    "BACKENDS",
    "TRAINED",
    "Backend",
    "BackendError",
    "Estimate",
    "Gpus",
    "TrainedEstimate",
    "choose",
    "is_counted",
]
