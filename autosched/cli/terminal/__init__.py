"""Input and output of commands: text, tables, progress, errors and signals.

Start at ``output.py`` (lines and JSON), ``console.py`` (tables) and ``progress.py`` (live displays, or plain lines if
stderr is not a terminal). ``errors.py`` has the exit statuses, ``interrupts.py`` handles Ctrl-C, and
``supervised.py`` runs a command in a child process. This package must not import commands or their options.
"""
