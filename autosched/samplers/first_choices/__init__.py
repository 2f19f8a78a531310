"""Proposals before any measurement.

Start at ``model_search.py``, which searches the time model itself, by the steps of ``descent.py``. ``guesses.py``
converts estimates to coordinates, and ``nvidia_heuristics.py`` calls NVIDIA's library in a child process. This package
does not learn from measurements. This package must not import the samplers that use it.
"""
