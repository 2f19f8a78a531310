"""How long will a kernel take?

Start at ``estimates.py``, the value that a search is handed; ``analytic.py`` is the time model over counts of work
behind it. ``features.py`` describes schedules for learned models, ``trees/`` learns from measurements, and
``gaussian_process.py`` serves the sampler. This package imports ``search_spaces`` only, and must not import
``measurements`` or ``autosched``.
"""
