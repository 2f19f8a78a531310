"""Everything that wants a GPU, or prepares for one: ``python -m benchmarks.gpu``."""
