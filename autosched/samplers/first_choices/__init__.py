"""What is worth trying before anything has been measured?

Descents along the time model (``descent``, ``prior``), NVIDIA's heuristics, guesses that a sampler tries first.
"""
