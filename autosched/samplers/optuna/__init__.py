"""Use of autosched's Bayesian sampler in Optuna studies.

Start at ``study_sampler.py``, an ``optuna.samplers.BaseSampler``. ``axes.py`` maps the study's distributions to
parameters of a space. Only public interfaces of Optuna are used. This package must not import ``tuning``.
"""
