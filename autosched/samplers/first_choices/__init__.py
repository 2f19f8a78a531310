"""Proposals of schedules before any measurement.

Start at ``model_search.py``, which searches for the smallest estimates of the time model, with descents
(``descent.py``). ``guesses.py`` converts estimates to coordinates of a Gaussian process, and ``nvidia_heuristics.py``
calls NVIDIA's library in a child process. This package does not learn from measurements. It must not import the
samplers that use it.
"""
