"""Persistence of the choices of stock ``@triton.autotune`` kernels between processes.

Start at ``autotuners.py``, which answers them from a database. Only ``adapter.py`` knows Triton's autotuner;
``identity.py`` identifies the trials of a tuning, ``answers.py`` reads and writes them, ``turns.py`` lets one process
tune while others wait, and ``startup/`` attaches all of it to a program that is started by ``autosched serve``.
Importing the package imports neither Triton nor torch.
"""

from autosched.triton.persistence.autotuners import DEFAULT_TIMEOUT, Persistence, persist

__all__ = ["DEFAULT_TIMEOUT", "Persistence", "persist"]
