"""Measure how many faults the emulator detects, and its speed."""
