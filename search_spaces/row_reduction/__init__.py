"""Reductions of rows and columns, softmax, rmsnorm and layernorm: problems, schedules, rules, constants and work."""

from search_spaces.row_reduction.problem import AXES, KINDS, LayerNorm, Reduce, RmsNorm, RowProblem, Softmax

__all__ = ["AXES", "KINDS", "LayerNorm", "Reduce", "RmsNorm", "RowProblem", "Softmax"]
