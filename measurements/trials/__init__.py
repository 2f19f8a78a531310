"""What is one measurement, and when do two differ?

Start at ``trial.py``. ``signed_rank.py`` and ``near_ties.py`` decide whether times differ, ``comparison.py`` whether
outputs are correct. ``recorded/`` holds the recordings that are shipped. This room must not import the store: it does
not know where trials are.
"""
