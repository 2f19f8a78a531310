"""Default sampler: Bayesian optimisation with expected improvement.

Start at ``sampler.py``. ``coordinates.py`` maps schedules to points, ``pool.py`` makes candidates, ``acquisition.py``
ranks them by expected improvement, and ``settings.py`` has the constants. The Gaussian process itself is in
``cost_models``. This package must not import ``tuning``.
"""
