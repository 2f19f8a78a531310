"""Trials, and statistics to compare their times.

Start at ``trial.py``. ``signed_rank.py`` and ``near_ties.py`` decide whether times differ. ``comparison.py`` decides
whether outputs are correct. ``shipped.py`` reads the recordings in ``recorded/``, which are installed with autosched.
This package must not import the store.
"""
