"""What is known, on disk? SQLite or PostgreSQL.

Start at ``store``; ``schema`` has the tables, ``best_index`` the best of each problem, ``migrations`` older databases.
"""
