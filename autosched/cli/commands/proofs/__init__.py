"""Is this kernel right? ``autosched verify``, ``emulate``, ``run`` and ``judge``: none needs a GPU."""
