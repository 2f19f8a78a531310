"""What a tile program says: operations, indices, values, and what each computes."""
