"""Backends: each takes candidates and gives one measurement for every one of them."""
