"""The kernel template of tcgen05 matmuls (Blackwell) that first pads operands for TMA."""

from __future__ import annotations

from search_spaces.templates.common.padded_operands import with_padded_operands
from search_spaces.templates.tcgen05_matmul.space import space
from search_spaces.templates.tcgen05_matmul.template import TCGEN05_MATMUL

TCGEN05_MATMUL_PADDED = with_padded_operands(TCGEN05_MATMUL, space=space)
