"""Display of results: text, tables, pictures and HTML.

Start at ``formatting.py`` (numbers with units, tables, bounds in words). ``pictures.py`` draws layouts,
``roofline.py`` compares with the limits of a GPU, and ``html/`` writes the report of a database. This package needs no
GPU. This package must not import ``tuning`` or the command line.
"""
