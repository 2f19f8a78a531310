"""How does a program get its choices from a database without an edit?

``autosched serve`` puts this folder on the ``PYTHONPATH`` of a program. Each Python process below it then imports
``sitecustomize.py`` at its start. Nothing else may lie here: its name would hide a module of the program.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
DATABASE, TIMEOUT = "AUTOSCHED_SERVE_DB", "AUTOSCHED_SERVE_TIMEOUT"  # variables of the environment
