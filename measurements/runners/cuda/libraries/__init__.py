"""What do others' kernels take on the same arrays? Start at ``baselines``; it knows cuBLAS, cuBLASLt, torch and Triton,
and nothing of how times are taken."""
