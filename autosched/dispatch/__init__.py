"""Which kernel is for these arrays? Start at ``functions``."""
