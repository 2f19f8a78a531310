"""What may be tried: problems, devices, layouts, intrinsics, parameters, rules. Python and numpy only; no GPU."""
