"""Read published tables of measured times.

Start at ``reading.py``. ``table.py`` holds one table of measured configurations. ``kernel_tuner.py`` reads the cache
files and T4 results files of Kernel Tuner. Tables are used to replay searches and to train models. This package must
not import runners or the emulator.
"""
