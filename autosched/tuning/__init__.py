"""Search for the fastest schedule of one problem.

Start at ``tune.py``. ``loop.py`` runs the trials, ``ledger.py`` stores them, and ``winner/`` chooses the winner among
the fastest schedules. ``backends/`` decides how candidates are timed. This package must not import the command line or
``dispatch``.
"""
