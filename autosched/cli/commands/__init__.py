"""Commands of the command line.

Start at ``best.py``, a small one: each command has a file with its name, which parses options, calls one function of
another package and prints the result. Searches are in ``tuning/``, verification in ``verification/``, and the commands
about this machine in ``machine/``. ``sharing.py`` has ``export``, ``import`` and ``merge``; ``database.py`` has ``db``.
Commands decide nothing themselves, and must not import ``integrations``.
"""
