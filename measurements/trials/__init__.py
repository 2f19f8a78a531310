"""What does one trial consist of, and when do two times differ?

Start at ``trial.py``. ``signed_rank.py`` and ``near_ties.py`` decide whether times differ, ``comparison.py`` whether
outputs are correct. ``shipped.py`` reads the recordings that come with autosched, which are in ``recorded/``. This
room must not import the store: it does not know where trials are.
"""
