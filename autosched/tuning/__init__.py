"""How is a search run? Start at ``tune``."""
