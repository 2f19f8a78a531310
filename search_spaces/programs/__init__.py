"""Tile programs: a user's operator as operations on tiles, checked, scheduled, lowered to CUDA C++."""
