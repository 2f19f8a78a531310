"""Published kernels, written as their users would write them for autosched."""
