"""Matrix multiplication by wgmma on Hopper, with operands that TMA copies."""
