"""Start-up hook that makes an unmodified program read its choices from a database.

Start at ``sitecustomize.py``. ``autosched serve`` adds this folder to the ``PYTHONPATH`` of a program, so every Python
process of the program imports ``sitecustomize.py`` at its start. This file must not import torch or Triton itself. The
folder must not contain other modules, because they would hide the program's modules of the same name.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
DATABASE, TIMEOUT = "AUTOSCHED_SERVE_DB", "AUTOSCHED_SERVE_TIMEOUT"  # environment variables that pass the settings
