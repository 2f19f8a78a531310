"""Trials, and statistical comparison of their times.

Start at ``trial.py``. ``signed_rank.py`` and ``near_ties.py`` decide whether times differ, ``comparison.py`` whether
outputs are correct. ``shipped.py`` reads the recordings that come with autosched, which are in ``recorded/``. This
package must not import the store: it does not depend on where trials are stored.
"""
