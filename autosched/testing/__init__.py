"""Tests for people who extend autosched: the contracts that plug-ins have to obey, as classes of pytest.

Start at ``samplers``. Needs pytest. It must not be imported by anything that runs.
"""

from autosched.testing.samplers import SAMPLER_SPACES, SamplerContract

__all__ = ["SAMPLER_SPACES", "SamplerContract"]
