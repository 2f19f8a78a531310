"""A matrix times few vectors, as a lowering config."""
