"""Search for the fastest schedule of one problem.

Start at ``tune.py``. ``loop.py`` runs the trials, ``ledger.py`` stores them, and ``winner/`` decides which finalist
wins. ``backends/`` chooses how candidates are timed. This package must not import the command line or ``dispatch``.
"""
