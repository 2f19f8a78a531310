"""How long does a kernel take?

Start at ``base.py``, the protocol of all runners. ``cuda/`` measures on a GPU, ``fleet/`` on many machines,
``replay.py`` answers from recordings and ``estimate.py`` from the time model. Runners know launches: they must not
import kernel templates, tile programs or the emulator.
"""
