"""What does a user's kernel file say?

Start at ``user_kernel.py``: a kernel has its source, parameters, launch and problem. ``document.py`` and ``reading/``
read the TOML file, ``template.py`` makes a kernel template of it, and ``user_functions.py`` calls the user's Python
functions in a child process. This room must not import ``tuning`` or the command line.
"""


class KernelFileError(ValueError):
    """Unusable kernel file. The message is one line: ``conv.toml:12: launch.grid: ...``.

    It is defined here because every command names it, and few read such files.
    """
