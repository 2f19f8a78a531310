"""Programs that measure autosched itself, and kernels on a GPU machine. Run them as ``python -m benchmarks.NAME``."""
