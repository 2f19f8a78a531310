"""How does a command talk to a terminal? Tables, progress, Ctrl-C, errors in one line, files that it writes."""
