"""Transposing arrays of elements of any size: the problem, its schedules, their rules, constants and work."""

from search_spaces.transpose.problem import ELEMENT_BYTES, ArrayMove, Transpose

__all__ = ["ELEMENT_BYTES", "ArrayMove", "Transpose"]
