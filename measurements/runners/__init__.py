"""Runners that measure or estimate the time of a kernel.

Start at ``base.py``, the protocol of all runners. ``cuda/`` measures on a GPU, ``fleet/`` on many machines,
``replay.py`` answers from recordings and ``estimate.py`` from the time model. Runners know launches, and nothing of
samplers or the store.
"""
