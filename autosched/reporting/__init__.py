"""How are results shown? Start at ``formatting``."""
