"""Baselines: vendors' libraries and other projects, called on the same arrays as candidates.

Start at ``baselines.py``, which calls cuBLAS, cuBLASLt, torch and Triton. Libraries that need more code have a file
of their own. The parent package does the timing: this package imports its launch timer and must not import the
runner.
"""
