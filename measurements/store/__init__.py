"""What is known, on disk? Start at ``store``."""
