"""How is the search for a fast schedule run, for one problem?

Start at ``tune.py``. ``loop.py`` runs the trials, ``ledger.py`` stores them, and ``winner/`` decides which finalist
wins. ``backends/`` chooses how candidates are timed. This room must not import the command line or ``dispatch``.
"""
