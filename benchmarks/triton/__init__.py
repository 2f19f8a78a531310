"""Triton programs of others, run in the emulator."""
