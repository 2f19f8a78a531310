"""Start-up hook that gives a program its choices from a database without editing it.

``autosched serve`` puts this folder on the ``PYTHONPATH`` of a program. Each Python process below it then imports
``sitecustomize.py`` at its start. No other file may be here: its name would hide a module of the program.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
DATABASE, TIMEOUT = "AUTOSCHED_SERVE_DB", "AUTOSCHED_SERVE_TIMEOUT"  # environment variables
