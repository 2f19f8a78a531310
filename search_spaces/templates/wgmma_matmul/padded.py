"""The kernel template of wgmma matmuls (Hopper) that first pads operands for TMA."""

from __future__ import annotations

from search_spaces.templates.common.padded_operands import with_padded_operands
from search_spaces.templates.wgmma_matmul.space import space
from search_spaces.templates.wgmma_matmul.template import WGMMA_MATMUL

WGMMA_MATMUL_PADDED = with_padded_operands(WGMMA_MATMUL, space=space)
