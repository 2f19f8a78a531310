"""Tests of the contracts of plug-ins.

Start at ``samplers.py``: the contract of a sampler is a class of pytest tests, which a plug-in's tests inherit. This
package needs pytest. It must not import ``tuning`` or the command line, and no other package may import it.
"""

from autosched.testing.samplers import SAMPLER_SPACES, SamplerContract

__all__ = ["SAMPLER_SPACES", "SamplerContract"]
