"""Default sampler: Bayesian optimisation with expected improvement.

Start at ``sampler.py``. ``coordinates.py`` maps schedules to points, ``pool.py`` contains the candidates,
``acquisition.py`` ranks candidates, and ``settings.py`` has the constants. The Gaussian process is in ``cost_models``.
This package must not import ``tuning``.
"""
