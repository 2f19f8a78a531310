"""Load tile programs from files.

Start at ``loading.py``, which finds programs in Python and text files and registers each as a kernel template.
``references.py`` attaches a user's reference function. The language and its compiler are in
``search_spaces.programs``. This package must not import the search or ``verify``.
"""
