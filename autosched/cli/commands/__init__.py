"""What does each command do?

Start at any file: a command has one, named like it, which parses options, calls one function of another room and
prints the result. Searches are in ``tuning/``, verification in ``verification/``, and the commands about this machine
in ``machine/``. ``sharing.py`` has ``export``, ``import`` and ``merge``; ``database.py`` has ``db``. Commands decide
nothing themselves, and must not import ``integrations``.
"""
