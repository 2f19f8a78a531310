"""What does Triton make of one configuration?

Start at ``candidate.py``, the compiled configuration. ``processes.py`` compiles ahead in worker processes
(``worker.py``), so that a crash of the compiler only ends a worker. This room must not import the search
(``search.py``).
"""
