"""How does a command talk to a terminal?

Start at ``output.py`` (tables and JSON) and ``progress.py`` (live displays, or plain lines where nothing can be
redrawn). ``errors.py`` has the exit statuses, ``interrupts.py`` handles Ctrl-C. Nothing here knows what a command
does.
"""
