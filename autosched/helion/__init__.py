"""Helion's autotuner, by its public hooks: what is legal and proven wins, found by our samplers, kept in our store.

    @helion.kernel(autotuner_fn=autosched.helion.autotuner("best.db"))

``autotuner`` is a search of its own; ``proven`` filters the configurations of Helion's, ``seeds`` starts it, and
``DatabaseBackend`` keeps its winners. Without a GPU, times are ESTIMATED.
"""

from autosched.helion.cache import DatabaseBackend
from autosched.helion.proven import ProvenConfigs, proven
from autosched.helion.search import autotuner, seeds

__all__ = ["DatabaseBackend", "ProvenConfigs", "autotuner", "proven", "seeds"]
