"""What shared and global memory serve at a time. In a module of its own: what asks for no more waits for no layouts."""

BANKS = 32
BANK_BYTES = 4
PHASE_BYTES = BANKS * BANK_BYTES  # of shared memory, in a cycle
WIDEST_BYTES = 16  # of one lane's load, store or cp.async
SECTOR_BYTES = 32  # smallest transfer from global memory (CUDA C++ Best Practices Guide, "Coalesced access")
