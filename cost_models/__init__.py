"""Cost models: estimated times of kernels.

Start at ``estimates.py``, the interface that searches use. ``analytic.py`` is the analytic time model, which needs no
training. ``features.py`` computes the inputs of learned models, ``trees/`` learns from measurements, and
``gaussian_process.py`` is the surrogate model of a sampler. This package imports ``search_spaces`` only, and must not
import ``measurements`` or ``autosched``.
"""
