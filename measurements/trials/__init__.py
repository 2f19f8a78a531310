"""Trials, and statistics to compare their times.

Start at ``trial.py``. ``signed_rank.py`` and ``near_ties.py`` decide whether times differ. ``comparison.py`` decides
whether outputs are correct. ``shipped.py`` reads the recordings in ``recorded/``, which are installed with autosched.
This package does not depend on where trials are stored, and must not import the store.
"""
