"""Use autosched's verification, samplers and database with Helion's autotuner.

Start at ``search.py``, whose ``autotuner`` replaces Helion's search.

    @helion.kernel(autotuner_fn=autosched.integrations.helion.autotuner("best.db"))

Helion's own search can use parts of autosched: ``verified`` filters the configurations, ``seeds`` provides the first
configurations to try, and ``DatabaseBackend`` stores the winners. Without a GPU, times are ESTIMATED. This package must
not import ``autosched.cli`` or another integration.
"""

from autosched.integrations.helion.cache import DatabaseBackend
from autosched.integrations.helion.search import autotuner, seeds
from autosched.integrations.helion.verified import VerifiedConfigs, verified

__all__ = ["DatabaseBackend", "VerifiedConfigs", "autotuner", "seeds", "verified"]
