"""Matmuls by tcgen05, on GPUs with tensor memory."""
