"""Matrix multiplication by CUDA cores, wmma, or ldmatrix and mma.sync."""
