"""Faults planted in tcgen05_matmul.

The faults are missing or misplaced waits, fences and commits; wrong allocation, release and addressing of tensor
memory; wrong descriptors and wrong positions. Start reading at cases.py.
"""

from __future__ import annotations

from tcgen05_planted import copies, finish, launch_control, multiply, scales, shared_tiles, tensor_memory
from tcgen05_planted.cases import B200, SMALL

_MODULES = (scales, multiply, finish, copies, tensor_memory, shared_tiles, launch_control)
PLANTED = tuple(planted for module in _MODULES for planted in module.PLANTED)
__all__ = ["B200", "PLANTED", "SMALL"]
