"""Tile programs of users: found in their Python files, and registered like any kernel template."""
