"""Which problems a program computes, and how often: recorded while it runs, and read to be tuned.

Start with ``log.py``: ``AUTOSCHED_RECORD=shapes.csv`` or ``recording`` writes what ``reading.py`` reads for
``tune --from``. Programs that only record import only ``log``.
"""
