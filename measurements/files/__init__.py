"""Safe reading and writing of files.

Start at ``atomic_write.py``, which writes files atomically. ``bounded.py`` reads files that a user names, with limits
of size and waiting time; ``python_file.py`` loads users' Python files; ``text.py`` makes third-party text safe to
print. This package must not import any other package of ``measurements``.
"""
