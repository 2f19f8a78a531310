"""How much faster would a program be if its kernels were tuned?

Start at ``headroom.py``, the estimate for one problem. ``evidence.py`` reads what earlier searches on a GPU found,
``libraries.py`` the times of vendors' libraries next to them, and ``program.py`` adds up the problems of a program.
Nothing here measures, compiles or needs a GPU. This room must not import ``suites`` or the command line.
"""
