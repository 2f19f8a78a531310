"""The operators whose kernels are tuned.

Start at ``problem.py`` and ``operator.py``, the protocols. Each other file is an operator: its sizes and types, its
reference in numpy, its tolerance and its edge-case inputs. Operators know nothing of kernels.
"""
