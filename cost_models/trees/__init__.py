"""What do measurements teach? Boosted trees on top of the time model: start at ``trained_model.py``.

``training.py`` learns, ``observations.py`` is what it learns from, ``evaluation.py`` says how good it is.
"""
