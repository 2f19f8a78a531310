"""Is this kernel right? Start at ``proof``."""
