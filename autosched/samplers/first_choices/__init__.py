"""What is worth trying before anything has been measured?

Start at ``model_search.py``, which searches the time model itself, by the steps of ``descent.py``. ``guesses.py``
turns estimates into coordinates, and ``nvidia_heuristics.py`` asks NVIDIA's library in a child process. Nothing here
learns from measurements. This room must not import the samplers that use it.
"""
