"""PTX definitions of functions of CUDA's device runtime, which the PTX of executables only declares."""

from __future__ import annotations

import re
from collections.abc import Sequence

# The handle of a conditional node is the address of its value (library/cudart/graph_nodes.cpp).
_SET_CONDITIONAL = """.version 6.0
.target sm_50
.address_size 64
.visible .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value)
{
	.reg .b64 %address;
	.reg .b32 %word;
	ld.param.b64 %address, [handle];
	ld.param.b32 %word, [value];
	st.global.b32 [%address], %word;
	ret;
}
"""
_DECLARED = re.compile(r"\.extern\s+\.func\s+cudaGraphSetConditional\b")


def with_device_functions(texts: Sequence[str]) -> Sequence[str]:
    """Return the PTX texts of a module, followed by definitions of the device-runtime functions that they declare."""
    return (*texts, _SET_CONDITIONAL) if any(map(_DECLARED.search, texts)) else texts
