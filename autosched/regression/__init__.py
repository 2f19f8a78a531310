"""Has a tuned kernel become slower or wrong?

Start at ``check.py``, which checks every entry of a database for validity, correctness and speed. ``slowdown.py`` has
the statistics, ``pytest_plugin.py`` offers the same to a test suite, ``report.py`` writes JUnit and Markdown. An
entry that cannot be judged is uncertain; it never ends the check. This room must not import the command line,
``suites`` or ``judge``.
"""
