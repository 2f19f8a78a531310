"""How much faster would a program be if its kernels were tuned?

Start with ``headroom.py``: the estimate for one problem. ``evidence.py`` reads what earlier searches on a GPU found,
``libraries.py`` what vendors' libraries took beside them, and ``program.py`` adds the problems of a program up.
Nothing here measures, compiles or needs a GPU, and nothing here may import ``suites`` or the command line.
"""
