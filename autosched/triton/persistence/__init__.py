"""How do stock ``@triton.autotune`` kernels keep their choices between processes?

Start at ``autotuners.py``, which answers them from a database. ``adapter.py`` is the one file that knows Triton's
autotuner; ``identity.py`` says which trials a tuning has, ``answers.py`` reads and writes them, ``turns.py`` lets one
process tune while others wait, and ``startup/`` attaches all of it to a program that is started by ``autosched
serve``. Importing the package imports neither Triton nor torch.
"""

from autosched.triton.persistence.autotuners import DEFAULT_TIMEOUT, Persistence, persist

__all__ = ["DEFAULT_TIMEOUT", "Persistence", "persist"]
