"""How the runner is compiled, sealed and kept on this machine: start at ``build.py``."""
