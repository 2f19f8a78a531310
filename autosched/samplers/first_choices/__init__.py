"""Proposals before any measurement.

Start at ``model_search.py``, which searches the time model itself, by the steps of ``descent.py``. ``guesses.py``
converts estimates to coordinates, and ``nvidia_heuristics.py`` asks NVIDIA's library in a child process. Nothing here
learns from measurements. This package must not import the samplers that use it.
"""
