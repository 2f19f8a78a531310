"""Transaction sizes of shared and global memory, in a separate module so that importing them loads no layouts."""

BANKS = 32
BANK_BYTES = 4
PHASE_BYTES = BANKS * BANK_BYTES  # bytes of shared memory per cycle
WIDEST_BYTES = 16  # bytes of one lane's widest load, store or cp.async
SECTOR_BYTES = 32  # smallest transfer from global memory (CUDA C++ Best Practices Guide, "Coalesced access")
