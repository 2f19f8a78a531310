"""How are results shown?

Start at ``formatting.py`` (numbers with units, tables, bounds in words). ``pictures.py`` draws layouts,
``roofline.py`` compares with the limits of a GPU, and ``html/`` writes the report of a database. Nothing here tunes,
compiles or needs a GPU.
"""
