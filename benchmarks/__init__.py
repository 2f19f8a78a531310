"""Programs that measure autosched, and kernels on a GPU. Run them as ``python -m benchmarks.NAME``."""
