"""From a planned schedule to CUDA C++."""
