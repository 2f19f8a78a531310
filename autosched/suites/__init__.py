"""Suites: sets of problems that are tuned under one budget.

Start at ``suite.py``, which reads a suite file; ``logged_calls.py`` reads the log of a program's calls. Both modules
return problems, which ``autosched.tuning`` tunes. The package ``integrations`` reads logs of other projects; this
package must not import it.
"""
