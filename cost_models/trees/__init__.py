"""Cost models that are trained on measured times.

Start at ``trained_model.py``: boosted trees learn corrections on top of the time model. ``training.py`` fits models,
``observations.py`` contains their training data, and ``evaluation.py`` has the measures of quality. This package must
not import ``measurements``: callers pass the data.
"""
