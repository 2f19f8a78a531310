"""How does a program get its choices from a database without being edited?

Start at ``sitecustomize.py``: ``autosched serve`` puts this folder on the ``PYTHONPATH`` of a program, and each of
its Python processes imports this file at its start. It must not import torch or Triton itself. No other file may be
here: its name would hide a module of the program.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
DATABASE, TIMEOUT = "AUTOSCHED_SERVE_DB", "AUTOSCHED_SERVE_TIMEOUT"  # environment variables
