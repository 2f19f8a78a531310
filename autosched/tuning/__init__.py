"""Which schedule of one problem is fastest?

Start at ``tune.py``. ``loop.py`` runs the trials, ``ledger.py`` stores them, and ``winner/`` decides which finalist
wins. ``backends/`` chooses how candidates are timed. This room must not import the command line or ``dispatch``.
"""
