"""Which operators can be tuned, and how are their results checked?

Start at ``problem.py`` and ``operator.py``, the protocols. Each operator has a file: its sizes and types, its
reference in numpy, its tolerance and its edge-case inputs. This room must not import kernel templates.
"""
