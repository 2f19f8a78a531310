"""A user's own kernel: its source, what may vary, how it is launched, what it computes.

Start at ``user_kernel.py``. ``document.py`` and ``reading/`` read the TOML file, ``template.py`` makes a kernel
template of it, and ``user_functions.py`` calls the user's Python functions in a child process. This room must not
import tuning or the command line.
"""


class KernelFileError(ValueError):
    """A kernel file that cannot be used. The message is one line: ``conv.toml:12: launch.grid: ...``.

    It stands here as every command names it, and few read such files.
    """
