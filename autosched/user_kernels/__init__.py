"""A user's own kernel: a ``.cu`` file and what may vary, how it is launched, what it computes.

Start at ``user_kernel``; ``document`` and ``reading`` have the TOML, ``template`` makes it a kernel template.
"""


class KernelFileError(ValueError):
    """A kernel file that cannot be used. The message is one line: ``conv.toml:12: launch.grid: ...``.

    It stands here as every command names it, and few read such files.
    """
