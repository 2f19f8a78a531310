"""Cost models: estimated times of kernels.

Start at ``estimates.py``, the interface to searches; ``analytic.py`` is the analytic time model, which needs no
training. ``features.py`` describes schedules for learned models, ``trees/`` learns from measurements, and
``gaussian_process.py`` serves the sampler. This package imports ``search_spaces`` only, and must not import
``measurements`` or ``autosched``.
"""
