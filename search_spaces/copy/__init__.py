"""Copying arrays: the problem, its schedules, their rules, constants and work."""

from search_spaces.copy.problem import Copy

__all__ = ["Copy"]
