"""Measurements, and statistics for comparing them.

Start at ``trial.py``. ``signed_rank.py`` and ``near_ties.py`` decide whether times differ, ``comparison.py`` whether
outputs are correct. ``recorded/`` holds the recordings that are shipped. This room must not know where trials are
stored.
"""
