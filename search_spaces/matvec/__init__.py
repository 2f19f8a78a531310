"""Matrix times few vectors: the problem, its schedules (lowering configs), their rules, constants and work."""

from search_spaces.matvec.problem import Matvec

__all__ = ["Matvec"]
