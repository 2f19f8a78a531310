"""How are results shown?

Start at ``formatting.py`` (numbers with units, tables, bounds in words). ``pictures.py`` draws layouts,
``roofline.py`` compares with the limits of a GPU, and ``html/`` writes the report of a database. Nothing here needs a
GPU. This room must not import ``tuning`` or the command line.
"""
