"""Which schedule does the default sampler, Bayesian optimisation, expect to improve most?

Start at ``sampler.py``. ``coordinates.py`` maps schedules to points, ``pool.py`` makes candidates, ``acquisition.py``
ranks them by expected improvement, and ``settings.py`` holds the constants. The Gaussian process itself is in
``cost_models``. This room must not import ``tuning``.
"""
