"""How does a command talk to a terminal?

Start at ``output.py`` (lines and JSON), ``console.py`` (tables) and ``progress.py`` (live displays, or plain lines
where nothing can be redrawn). ``errors.py`` has the exit statuses, ``interrupts.py`` handles Ctrl-C, and
``supervised.py`` runs a command in a child process. This room must not import commands or their options.
"""
