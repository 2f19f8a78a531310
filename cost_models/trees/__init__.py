"""Cost models that are trained on measured times.

Start at ``trained_model.py``: boosted trees learn corrections on top of the time model. ``training.py`` fits,
``observations.py`` prepares the data, ``evaluation.py`` reports the quality on held-out problems. This package must
not import ``measurements``: callers pass the data.
"""
