"""How are files read and written safely?

Start at ``atomic_write.py``, which publishes files whole. ``bounded.py`` reads files that a user names,
``python_file.py`` loads users' Python files, and ``text.py`` makes third-party text safe to print. This room must not
import any other room.
"""
