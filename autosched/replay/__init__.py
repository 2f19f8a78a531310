"""How good is a search? Samplers in tables of recorded measurements: ``search``, and its pictures in ``curves``."""
