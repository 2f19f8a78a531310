"""Start-up hook that makes an unmodified program read its choices from a database.

Start at ``sitecustomize.py``: ``autosched serve`` puts this folder on the ``PYTHONPATH`` of a program, and each of
its Python processes imports this file at its start. It must not import torch or Triton itself. This folder must not
contain other modules, because they would hide modules of the program that have the same name.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
DATABASE, TIMEOUT = "AUTOSCHED_SERVE_DB", "AUTOSCHED_SERVE_TIMEOUT"  # environment variables
