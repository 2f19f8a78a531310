"""Store the configurations that unmodified ``@triton.autotune`` kernels choose, for use in other processes.

Start at ``autotuners.py``, which reads these choices from a database. Only ``adapter.py`` uses Triton's autotuner;
``identity.py`` identifies the trials of a tuning, and ``answers.py`` reads and writes these trials. ``tuning_locks.py``
lets one process tune while other processes wait. ``startup/`` attaches the database in a program that ``autosched
serve`` starts. Importing the package must not import Triton or torch.
"""

from autosched.triton.persistence.autotuners import DEFAULT_TIMEOUT, Persistence, persist

__all__ = ["DEFAULT_TIMEOUT", "Persistence", "persist"]
