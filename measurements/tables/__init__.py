"""Reading of published tables of measured times.

Start at ``reading.py``. ``table.py`` is one table of measured configurations, ``kernel_tuner.py`` reads the cache
files and T4 files of Kernel Tuner. Searches are replayed in these tables, and models learn from them. This package
must not import runners or the emulator.
"""
