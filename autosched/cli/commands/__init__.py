"""The commands, one file each, named like the command.

A command parses options, calls one function of another room and prints the result; it decides nothing itself.
Searches are in ``tuning/``, verification in ``verification/``, and what this machine can do in ``machine/``.
``sharing.py`` has ``export``, ``import`` and ``merge``; ``database.py`` has ``db``.
"""
