"""Verification, samplers and database of autosched for Helion's autotuner.

Start at ``search.py``: ``autotuner`` is a complete search.

    @helion.kernel(autotuner_fn=autosched.integrations.helion.autotuner("best.db"))

``verified`` filters the configurations of Helion's search, ``seeds`` starts it, and ``DatabaseBackend`` stores its
winners. Without a GPU, times are ESTIMATED. This package must not import ``autosched.cli`` or another integration.
"""

from autosched.integrations.helion.cache import DatabaseBackend
from autosched.integrations.helion.search import autotuner, seeds
from autosched.integrations.helion.verified import VerifiedConfigs, verified

__all__ = ["DatabaseBackend", "VerifiedConfigs", "autotuner", "seeds", "verified"]
