"""Kernels of Kernel Tuner's examples, its benchmark hub and BAT, rewritten as kernel files."""
