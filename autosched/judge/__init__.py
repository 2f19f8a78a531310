"""Verify a Triton kernel that was submitted for a task.

Start at ``judging.py``, which returns a verdict: correct, wrong, racing, out of bounds, cheating or unverified.
``task.py`` reads KernelBench and KernelBot tasks, and ``worker.py`` runs the submission in a separate process. This
package imports ``autosched.triton`` and must not import ``tuning``.
"""
