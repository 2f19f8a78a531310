"""What does this PTX do? It is parsed (``parser.py``), and made a program for the runtime: start at ``program.py``."""
