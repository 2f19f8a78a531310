"""Operators that can be tuned, with checks of their results.

Start at ``problem.py`` and ``operator.py``, the interfaces. Each operator has a file with its sizes and types, its
reference in numpy, its tolerance and its edge-case inputs. This package must not import kernel templates.
"""
