"""What is worth trying before anything has been measured?

Start at ``model_search.py``, which searches the time model itself. ``descent.py`` and ``prior.py`` are its parts,
``nvidia_heuristics.py`` asks NVIDIA's library in a child process, and ``guesses.py`` combines proposals. Nothing here
learns from measurements.
"""
