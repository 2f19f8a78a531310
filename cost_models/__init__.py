"""Cost models: estimated times of kernels.

Start at ``estimates.py``, the value that a search receives; ``analytic.py`` is its time model over counts of work.
``features.py`` describes schedules for learned models, ``trees/`` learns from measurements, and
``gaussian_process.py`` serves the sampler. This package imports ``search_spaces`` only, and must not import
``measurements`` or ``autosched``.
"""
