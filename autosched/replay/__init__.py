"""How good is a search?

``search.py`` runs samplers on tables of recorded measurements, and ``curves.py`` draws the results. No GPU and no
compiler is needed. The recordings themselves are in ``measurements.trials`` and ``measurements.tables``.
"""
