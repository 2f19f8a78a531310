"""Tables of measured configurations that come as files.

Start at ``reading.py``. ``table.py`` is one table, ``kernel_tuner.py`` reads the cache files and T4 files of Kernel
Tuner. Searches are replayed in these tables, and models learn from them. This
room imports neither runners nor the emulator.
"""
