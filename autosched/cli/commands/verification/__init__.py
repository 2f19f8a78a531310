"""Commands that verify code.

Start at ``file.py``: ``verify FILE`` recognises the kind of file and calls ``kernel_launch.py``, ``script.py``,
``executable.py`` (which also has the command ``run``) or ``submission.py`` (which also has ``judge``). ``schedules.py``
verifies schedules of operators, kernel files and tile programs. No verification needs a GPU. This package must not
import ``autosched.tuning`` or ``integrations``.
"""
