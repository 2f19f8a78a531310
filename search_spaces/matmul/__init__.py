"""Matrix multiplication: the problem, its schedules, their rules, their kernels' constants and their work."""

from search_spaces.matmul.problem import EPILOGUES, ORDERS, PRECISIONS, REDUCTIONS, Matmul

__all__ = ["EPILOGUES", "ORDERS", "PRECISIONS", "REDUCTIONS", "Matmul"]
