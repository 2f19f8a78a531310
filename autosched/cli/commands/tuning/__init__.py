"""Commands that search for fast schedules.

Start at ``tune.py``, the command for one problem. ``tune_suite.py`` handles many problems, ``tune_triton.py`` a
Triton function and ``tune_moe.py`` the expert layers of a model. The search itself is in ``autosched.tuning``. This
package must not import other commands or ``integrations``.
"""
