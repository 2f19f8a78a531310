"""Which problems should be tuned one after another?

Start at ``suite.py``, which reads a suite file; ``logged_calls.py`` reads the log of a program's calls. Each yields
problems; tuning them is the job of ``autosched.tuning``. Logs of other projects are read by ``integrations``, which
this room must not import.
"""
