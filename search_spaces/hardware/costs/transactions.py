"""Transaction sizes of shared and global memory. This module is separate, so that importing it loads no layouts."""

BANKS = 32
BANK_BYTES = 4
PHASE_BYTES = BANKS * BANK_BYTES  # bytes that shared memory serves per cycle
WIDEST_BYTES = 16  # bytes of one lane's widest load, store or cp.async
SECTOR_BYTES = 32  # smallest transfer from global memory (CUDA C++ Best Practices Guide, "Coalesced access")
