"""Runners: backends that determine the times of kernels.

Start at ``base.py``, the protocol of all runners. ``cuda/`` measures on a GPU, ``fleet/`` on many machines.
``replay.py`` returns recorded times, and ``estimate.py`` returns estimates of the time model. Runners work with
launches only: they must not import kernel templates, tile programs or the emulator.
"""
