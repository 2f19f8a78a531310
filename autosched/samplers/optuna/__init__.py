"""How does an Optuna study use our samplers?

Start at ``study_sampler.py``, an ``optuna.samplers.BaseSampler``. ``axes.py`` maps the study's distributions to
parameters of a space. Only public interfaces of Optuna are used. This room must not import ``tuning``.
"""
