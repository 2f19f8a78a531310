"""Estimate how much time tuning would save a program.

Start at ``headroom.py``, the estimate for one problem. ``evidence.py`` reads results of earlier searches on a GPU,
``libraries.py`` reads times of vendors' libraries, and ``program.py`` adds up the problems of a program. No module of
this package measures, compiles or needs a GPU. This package must not import ``suites`` or the command line.
"""
