"""Table of block-scaled formats: narrow types in which each block of values along k shares a scale.

mxf8 and mxf4 are formats of the OCP Microscaling Formats Specification, revision 1.0, section 5. nvf4 is NVIDIA's
format; its scales have a mantissa (cuBLAS documentation, "Narrow precision data types usage").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from search_spaces.hardware.dtypes import E2M1X2, E4M3, MULTIPLIED_DTYPES, UE4M3, UE8M0, DType

# values of e2m1 by code; the highest bit of a code, the sign, is omitted
FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
# products of an e2m1 value and a scale are multiplied by 2**FP4_EXPONENT, so that they are exact in f16
FP4_EXPONENT = -14


class BlockFormat(NamedTuple):
    """A block-scaled format: ``block`` values along k, stored as ``element``, share a scale of type ``scale``."""

    name: str
    element: DType
    block: int
    scale: DType

    @property
    def block_elements(self) -> int:
        """Number of stored elements that share a scale."""
        return self.block // self.element.values

    @property
    def word_elements(self) -> int:
        """Number of stored elements along k whose scales fill a 32-bit register."""
        return 32 // self.scale.bits * self.block_elements


BLOCK_FORMATS = {
    row.name: row
    for row in (
        BlockFormat("mxf8", E4M3, 32, UE8M0),
        BlockFormat("mxf4", E2M1X2, 32, UE8M0),
        BlockFormat("nvf4", E2M1X2, 16, UE4M3),
    )
}

UNIT_SCALED_AS = "mxf8"  # 8-bit floats without scales are multiplied in this format, with all scales set to 1

# Storage types of the factors of a product, including block-scaled ones.
FACTOR_DTYPES = MULTIPLIED_DTYPES | {name: row.element for name, row in BLOCK_FORMATS.items()}
