"""How long will a kernel take?

Start at ``analytic.py``, the time model over counts of work. ``features.py`` describes schedules for learned models,
``trees/`` learns from measurements, and ``gaussian_process.py`` serves the sampler. This package imports
``search_spaces`` only, and never ``measurements``.
"""
