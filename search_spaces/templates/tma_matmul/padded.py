"""The kernel template of mma.sync matmuls with TMA loads. A first launch pads operands for TMA."""

from __future__ import annotations

from search_spaces.templates.common.padded_operands import with_padded_operands
from search_spaces.templates.tma_matmul.space import space
from search_spaces.templates.tma_matmul.template import TMA_MATMUL

TMA_MATMUL_PADDED = with_padded_operands(TMA_MATMUL, space=space)
