"""What is one measurement, and when do two differ? Start at ``record``."""
