"""Commands that verify code.

Start at ``file.py``: ``verify FILE`` recognises the kind of file and passes it to ``kernel_launch.py``,
``script.py``, ``executable.py`` (also the command ``run``) or ``submission.py`` (also ``judge``). ``schedules.py``
verifies schedules of operators, kernel files and tile programs. None of them needs a GPU. This package must not
import ``autosched.tuning`` or ``integrations``.
"""
