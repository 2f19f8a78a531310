"""Copies of one run of bytes."""
