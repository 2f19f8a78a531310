"""What the chip does: devices, element types, tensor intrinsics, bank conflicts, data movement, cost counts."""
