"""How do two processes talk? Start at ``worker``."""
