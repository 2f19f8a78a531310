"""How good is a search on recorded measurements? Start at ``search``."""
