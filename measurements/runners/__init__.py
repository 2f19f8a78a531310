"""Runners: backends that determine the times of kernels.

Start at ``base.py``, the protocol of all runners. ``cuda/`` measures on a GPU, ``fleet/`` on many machines.
``replay.py`` returns recorded times, and ``estimate.py`` those of the time model. Runners only need launches: they
must not import kernel templates, tile programs or the emulator.
"""
