"""Published kernels as kernel files for autosched."""
