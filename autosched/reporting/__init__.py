"""Presentation of results as text, tables, pictures and HTML.

Start at ``formatting.py`` (numbers with units, tables). ``pictures.py`` draws layouts, ``roofline.py`` compares times
with the limits of a GPU, and ``html/`` writes the report of a database. This package needs no GPU. It must not import
``tuning`` or the command line.
"""
