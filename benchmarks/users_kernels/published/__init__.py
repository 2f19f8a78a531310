"""Kernels of Kernel Tuner's examples, of its benchmark hub and of BAT, written anew as files of their users."""
