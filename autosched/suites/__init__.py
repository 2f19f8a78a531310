"""Which problems should be tuned one after another?

``suite.py`` reads a suite file and ``logged_calls.py`` the log of a program's calls. ``flashinfer.py`` and
``tunableop.py`` read the files of other tuners. Each yields problems; tuning them is the job of ``autosched.tuning``.
"""
