"""Baselines: vendors' libraries and other projects, called on the same arrays as candidates.

Start at ``baselines.py``, which calls cuBLAS, cuBLASLt, torch and Triton. Libraries that need more code have a separate
file. This package may import the launch timer of the parent package, but not the runner.
"""
