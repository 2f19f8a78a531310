"""Helion's autotuner, by its public hooks: what is legal and verified wins, found by our samplers, kept in our store.

    @helion.kernel(autotuner_fn=autosched.integrations.helion.autotuner("best.db"))

``autotuner`` is a search of its own (start at ``search.py``); ``verified`` filters the configurations of Helion's,
``seeds`` starts it, and ``DatabaseBackend`` keeps its winners. Without a GPU, times are ESTIMATED. This room imports no
other integration.
"""

from autosched.integrations.helion.cache import DatabaseBackend
from autosched.integrations.helion.search import autotuner, seeds
from autosched.integrations.helion.verified import VerifiedConfigs, verified

__all__ = ["DatabaseBackend", "VerifiedConfigs", "autotuner", "seeds", "verified"]
