"""Configuration files of Triton kernels that ship with installed packages."""
