"""Does a plug-in keep its contract?

Start at ``samplers.py``: the contract of a sampler is a class of pytest tests, which a plug-in's tests inherit. This
room needs pytest. It must not import ``tuning`` or the command line, and no other room may import it.
"""

from autosched.testing.samplers import SAMPLER_SPACES, SamplerContract

__all__ = ["SAMPLER_SPACES", "SamplerContract"]
