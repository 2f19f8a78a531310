"""Kernels modelled on Kernel Tuner's examples, its benchmark hub and BAT, as kernel files."""
