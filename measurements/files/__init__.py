"""Files and texts that have nothing to do with GPUs.

Start at ``atomic_write.py``, which publishes files whole. ``bounded.py`` reads files that somebody else names,
``python_file.py`` loads users' Python files, and ``text.py`` makes foreign text safe to print. This room imports no
other room.
"""
