"""Published kernels, expressed as kernel files of autosched."""
